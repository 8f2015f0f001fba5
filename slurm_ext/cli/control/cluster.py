"""`dlqueue control --queue` and its like: the loops that work for the whole cluster.

A loop has a row in LOOPS and a file control_<kind>.py beside this one with
`make(settings, client, folder) -> Loop` and `details(status) -> Iterator[str]`, lines for people.
"""

import argparse
import json
import logging
import sys
from collections.abc import Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from slurm_ext.core.settings.document import Settings
    from slurm_ext.slurm import SlurmClient

LOOPS: Mapping[str, str] = {
    "queue": "put short jobs first among those that wait, by nice (queue.mode)",
    "elastic": "divide GPUs among jobs whose owners let their size change (elastic.mode)",
    "energy": "put idle nodes to sleep and wake them, by Slurm's power saving (energy.mode)",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """One option a loop; no two at once."""
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--pairs", action="store_true",
                       help="instead choose, for the whole cluster, which waiting CPU jobs start "
                       "beside which (on one machine; sharing.pairing says how far)")  # fmt: skip
    parser.set_defaults(loop=None)
    for kind, text in LOOPS.items():
        which.add_argument(f"--{kind}", action="store_const", dest="loop", const=kind, help=text)


def run(args: argparse.Namespace, settings: "Settings") -> int:
    """The exit status. Raises MissingError, InputError, SlurmError or UsageError."""
    from slurm_ext.control.loops import runner
    from slurm_ext.slurm import open_client

    kind, loop = args.loop, _loop(args.loop)
    if args.verb == "status":
        return _show(_status(kind, settings), loop, args.json)
    client = open_client(settings)
    if args.dry_run:
        return _show(runner.dry_run(kind, loop.make, settings, client), loop, args.json)
    if args.restore:
        count = runner.restore(kind, loop.make, settings, client)
        print(json.dumps({"restored": count}) if args.json else f"put back: {count}")
        return 0
    _must_be_on(kind, settings)
    _log_to_stderr()
    if args.once:
        return _show(runner.once(kind, loop.make, settings, client), loop, args.json)
    return _serve(args, kind, loop, settings, client)


def _serve(
    args: argparse.Namespace,
    kind: str,
    loop: ModuleType,
    settings: "Settings",
    client: "SlurmClient",
) -> int:
    from functools import partial

    from slurm_ext.control.loops import runner
    from slurm_ext.core.settings.document import load

    runner.serve(kind, loop.make, settings, client, partial(load, args.config))
    return 0


def _loop(kind: str) -> ModuleType:
    import importlib

    return importlib.import_module(f"slurm_ext.cli.control.{kind}")


def _must_be_on(kind: str, settings: "Settings") -> None:
    from slurm_ext.core.errors import UsageError

    if settings[f"{kind}.mode"] == "off":
        said = f"{kind}.mode is off: set it to shadow or act (INSTALL.md); --dry-run works anyway"
        raise UsageError(said)


def _log_to_stderr() -> None:
    logging.basicConfig(level=logging.INFO, format="%(name)s: %(message)s", stream=sys.stderr)


def _status(kind: str, settings: "Settings") -> dict[str, Any]:
    from slurm_ext.control.loops.loop_memory import LoopFolder
    from slurm_ext.core.errors import MissingError

    found = LoopFolder(settings.state_dir, kind).told("moves", "mode")
    if found is None:
        raise MissingError(f"no `dlqueue control --{kind}` runs here", "start it")
    return found


def _show(status: Mapping[str, Any], loop: ModuleType, as_json: bool) -> int:
    if as_json:
        print(json.dumps(status))
    else:
        _print(status, loop)
    return 0


def _print(status: Mapping[str, Any], loop: ModuleType) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console(highlight=False)
    if not status:
        console.print("the kill file is there: nothing is done")
        return
    table = Table("job or node", "move", "outcome", "why", box=None)
    for one in status["moves"]:
        cells = (one["subject"], one["done"], one["outcome"] or "not done", one["why"])
        table.add_row(*(escape(cell) for cell in cells))
    count = len(status["moves"])
    console.print(f"mode {status['mode']}: {count} move{'' if count == 1 else 's'}")
    if status["moves"]:
        console.print(table)
    for line in loop.details(status):
        console.print(escape(line))
