"""`dlqueue uninstall`: every file as it was before `dlqueue install`."""

import argparse

from slurm_ext.cli.install import run as install_run

HELP = (
    "Take dlqueue out of a site's files again: what nobody changed since is byte for byte what it"
    " was; of what somebody changed only our marked lines go. Nothing is stopped or restarted."
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    install_run.configure(parser)
    parser.add_argument(
        "--now",
        action="store_true",
        help="remove prolog and epilog without asking whether Slurm still runs them",
    )


def run(args: argparse.Namespace) -> int:
    """Take the named steps out, or all; raises InputError and its like."""
    return install_run.run(
        args, lambda installed, named: frozenset() if "files" in named else installed - named
    )
