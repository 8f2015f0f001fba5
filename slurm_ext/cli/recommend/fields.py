"""Fields of a question of `recommend`, from its options."""

import argparse
from typing import Any


def fields_of(args: argparse.Namespace) -> dict[str, Any]:
    """Fields of a script, or of a job name. Raises UsageError, InputError."""
    from slurm_ext.cli.predict.script_file import submission
    from slurm_ext.core.errors import UsageError

    if (args.script is None) == (args.name is None):
        raise UsageError("name a batch script, or a job of the history with --name")
    fields: dict[str, Any] = {"most_batch": args.most_batch, "gpu_mem_mib": args.gpu_mem_mib}
    if args.name is not None:
        return {**fields, "name": args.name, "user": args.user}
    if args.user is not None:
        raise UsageError("--user goes with --name; a script is yours")
    return {**fields, "submission": submission(args.script, tuple(args.args))}
