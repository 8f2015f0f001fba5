"""`dlqueue control`: a node's live allocator, and the loops that work for the whole cluster."""

import argparse
import importlib
import json
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from slurm_ext.cli.control.loops import ALLOCATOR, LOOPS, PAIRS, PAIRS_HELP, kind_of

if TYPE_CHECKING:
    from slurm_ext.control.loops.control_loop import LoopKind
    from slurm_ext.core.settings.document import Settings
    from slurm_ext.slurm import SlurmClient

SLURM_ANSWERS_S = 2.0  # a node's allocator goes on without an answer
HELP = (
    "Move CPUs and workers among the jobs that run on this node (as root, one process a node), or "
    "run one of the loops for the whole cluster (as root or SlurmUser, one process a loop)."
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options: which loop, and one round or one look instead of running on."""
    parser.add_argument(
        "verb",
        nargs="?",
        choices=("run", "status"),
        default="run",
        help="run (default), or show what the running loop does",
    )
    which = parser.add_mutually_exclusive_group()
    parser.set_defaults(loop=ALLOCATOR)
    for name, text in {PAIRS: PAIRS_HELP, **LOOPS}.items():
        which.add_argument(f"--{name}", action="store_const", dest="loop", const=name, help=text)
    only = parser.add_mutually_exclusive_group()
    for option, text in (
        ("--once", "run one round in the mode that is set, for a timer; its changes stay"),
        ("--dry-run", "show what would be done now; nothing is changed or written"),
        ("--restore", "put back what a killed process changed"),
    ):
        only.add_argument(option, action="store_true", help=text)


def run(args: argparse.Namespace) -> int:
    """Return the exit status. Raises MissingError, InputError, SlurmError or UsageError."""
    from slurm_ext.control.loops import runner
    from slurm_ext.core.settings.document import load

    settings, kind = load(args.config), kind_of(args.loop)
    if args.verb == "status":
        return _show(args, _status(kind, settings))
    client = _client(args.loop, settings)
    if args.dry_run:
        return _show(args, runner.dry_run(kind, settings, client))
    if args.restore:
        count = runner.restore(kind, settings, client)
        print(json.dumps({"restored": count}) if args.json else f"put back: {count}")
        return 0
    _start(args.loop, kind, settings)
    if args.once:
        return _show(args, runner.once(kind, settings, client))
    runner.serve(kind, settings, client, lambda: load(args.config))
    return 0


def _client(loop: str, settings: "Settings") -> "SlurmClient":
    from slurm_ext.core.settings.slurm_place import slurm_bin
    from slurm_ext.slurm import CommandClient, open_client

    if loop != ALLOCATOR:
        return open_client(settings)
    return CommandClient(
        bin_dir=slurm_bin(settings),
        slurm_conf=settings["paths.slurm_conf"],
        timeout_s=SLURM_ANSWERS_S,
    )


def _start(loop: str, kind: "LoopKind", settings: "Settings") -> None:
    """Log to stderr. Raises UsageError if the loop is off, MissingError if a package is absent."""
    import logging

    from slurm_ext.core.errors import UsageError
    from slurm_ext.policy.colocation import matching

    if settings[kind.mode] == "off":
        text = f"{kind.mode} is off: set it to shadow or act (INSTALL.md); --dry-run works anyway"
        raise UsageError(text)
    if loop == PAIRS:
        matching.require()
    logging.basicConfig(level=logging.INFO, format="%(name)s: %(message)s", stream=sys.stderr)


def _status(kind: "LoopKind", settings: "Settings") -> dict[str, Any]:
    from slurm_ext.core.errors import MissingError

    state = kind.state(settings, False)
    status = state.read_status(*kind.status_keys)
    if status is None:
        raise MissingError(f"no `{state.command}` runs here", "start it as root or SlurmUser")
    return status


def _show(args: argparse.Namespace, status: Mapping[str, Any]) -> int:
    if args.json:
        print(json.dumps(status))
        return 0
    from rich.console import Console

    console = Console(highlight=False)
    if not status:
        console.print("the kill file is there: everything is put back, nothing is done")
        return 0
    view = importlib.import_module(f"slurm_ext.cli.control.{args.loop}")
    for line in view.lines(status):
        console.print(line)
    return 0
