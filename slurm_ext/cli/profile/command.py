"""`dlqueue profile job.sh`: where the time of a step goes, by one run of the user's own script.

The run is a profile job: cached batches and gradients that are not synchronised spoil its weights,
so what it would save is counted and left out, and it ends by itself.
"""

import argparse
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from slurm_ext.cli.profile.run_folder import ProfileLimits, ProfileRun

HELP = (
    "Say where the time of a training's step goes: computing, communicating, waiting for data"
    " (fetch, cores, preparation). Runs a batch script by sbatch, or a program here, for at most"
    " three minutes of training, in windows with real and with cached batches, with and without"
    " gradient synchronisation. Nothing that Python would save is saved. Lines of a batch script"
    " itself run as they are written."
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add this command's options; all that follows the script or program is its own."""
    from pathlib import Path

    parser.add_argument(
        "--seconds", type=_seconds, default=180.0, metavar="S", help="of training, at most"
    )
    parser.add_argument("--steps", type=_count, default=400, metavar="N", help="at most")
    parser.add_argument(
        "--startup",
        type=_seconds,
        default=600.0,
        metavar="S",
        help="for the training to begin: a run that has not ended this long after its seconds of"
        " training is ended",
    )
    parser.add_argument(
        "--seed", type=int, default=0, metavar="N", help="of the windows' order (default: 0)"
    )
    parser.add_argument(
        "--local", action="store_true", help="run a batch script here, not by sbatch"
    )
    parser.add_argument("--html", type=Path, metavar="FILE", help="write a page with the windows")
    parser.add_argument(
        "argv", nargs=argparse.REMAINDER, metavar="COMMAND", help="a batch script, or a program"
    )


def run(args: argparse.Namespace) -> int:
    """Print the profile. Exit status 1 where nothing could be measured, with the reason.

    Raises UsageError, InputError, SlurmError.
    """
    from slurm_ext.cli.common.output import put_file, tell
    from slurm_ext.cli.profile.text import lines
    from slurm_ext.core.errors import UsageError

    argv = args.argv[1:] if args.argv[:1] == ["--"] else args.argv
    if not argv:
        raise UsageError(
            "name what to profile: dlqueue profile job.sh, or dlqueue profile -- python train.py"
        )
    if args.html is not None:
        from slurm_ext.report import plots

        plots.require()
    document = profiled(argv, args)
    tell(document, lines, as_json=args.json)
    if args.html is not None:
        from slurm_ext.cli.profile.page import page

        put_file(args.html, page(document))
    return 0 if document["depth"] else 1


def profiled(argv: list[str], args: argparse.Namespace) -> dict[str, Any]:
    """The document of one run (analysis.py)."""
    import shlex

    from slurm_ext.cli.profile.analysis import document
    from slurm_ext.cli.profile.run_folder import ProfileLimits

    limits = ProfileLimits(args.steps, args.seconds, args.startup, args.seed)
    ended = _ran(argv, limits, args)
    return document(shlex.join(argv), ended)


def _ran(argv: list[str], limits: "ProfileLimits", args: argparse.Namespace) -> "ProfileRun":
    from slurm_ext.cli.profile import batch, here
    from slurm_ext.cli.profile.checks import check
    from slurm_ext.core.settings.document import load

    script = batch.script_of(argv[0])
    if script is not None and not args.local:
        sbatch = batch.sbatch_of(load(args.config))
        if sbatch is not None:
            return batch.run(argv, script, limits, sbatch)
    check(argv, script)
    if script is not None and not os.access(argv[0], os.X_OK):
        argv = ["sh" if script.startswith("#!/bin/sh") else "bash", *argv]
    return here.run(argv, limits)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 1 <= seconds <= 86400:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds from 1 to 86400")
    return seconds


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 1 <= int(text[:9]) <= 100_000):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of steps from 1 to 100000")
    return int(text)
