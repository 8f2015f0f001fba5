"""Keys by which `recommend` finds the runs of a script, or of a job name."""

import argparse
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slurm_ext.core.records import Level


def keys_asked(args: argparse.Namespace) -> Mapping["Level", int]:
    """The keys to look for, nearest first: those of the user's own runs. Raises UsageError."""
    from slurm_ext.cli.predict.script_file import submission
    from slurm_ext.core.errors import UsageError
    from slurm_ext.core.job_keys import keys_of, user_name_key
    from slurm_ext.core.records import Level

    if (args.script is None) == (args.name is None):
        raise UsageError("name a batch script, or a job of the history with --name")
    if args.name is not None:
        return {Level.USER_NAME: user_name_key(args.user or me(), args.name)}
    if args.user is not None:
        raise UsageError("--user goes with --name; a script is yours")
    keys = keys_of(submission(args.script, tuple(args.args)))
    own = (Level.SCRIPT_ARGS, Level.SCRIPT, Level.USER_NAME)
    return {level: keys[level] for level in own if level in keys}


def me() -> str:
    """Name of this user; the number of one without."""
    import os
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())
