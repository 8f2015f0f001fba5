"""`dlqueue uninstall`: every file as it was before `dlqueue install`."""

import argparse

from slurm_ext.cli.install import run as install_run

HELP = (
    "Take dlqueue out of a site's files again: what nobody changed since is byte for byte what it"
    " was; of what somebody changed only our marked lines go. Nothing is stopped or restarted."
)
HELD = 3  # the exit status where launchers stay


def configure(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    install_run.configure(parser, "All where none is named")
    parser.add_argument(
        "--now",
        action="store_true",
        help="remove prolog and epilog without asking whether Slurm still runs them",
    )


def run(args: argparse.Namespace) -> int:
    """Take the named steps out, or all; raises InputError and its like."""
    held = install_run.run(args, _wanted)
    return HELD if held and not args.dry_run else 0


def _wanted(installed: frozenset[str], named: frozenset[str]) -> frozenset[str]:
    return installed - named if named and "files" not in named else frozenset()
