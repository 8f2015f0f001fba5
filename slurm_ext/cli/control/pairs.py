"""`dlqueue control --pairs`: which waiting CPU jobs start beside which."""

import argparse
import json
import logging
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from slurm_ext.core.settings.document import Settings
    from slurm_ext.slurm import CommandClient


def run(args: argparse.Namespace, settings: "Settings") -> int:
    """The exit status. Raises MissingError, InputError, SlurmError or UsageError."""
    from slurm_ext.control.coscheduling import daemon as coscheduling_daemon

    if args.verb == "status":
        return _show(_status(settings), args.json)
    if args.once:
        return _show(coscheduling_daemon.once(settings, _client(settings)), args.json)
    if args.restore:
        count = coscheduling_daemon.restore(settings, _client(settings))
        print(json.dumps({"restored": count}) if args.json else f"put back: {count}")
        return 0
    return _run(settings)


def _run(settings: "Settings") -> int:
    from slurm_ext.control.coscheduling import daemon as coscheduling_daemon
    from slurm_ext.core.errors import UsageError

    if settings["sharing.pairing"] == "off":
        raise UsageError("sharing.pairing is off: set it to shadow or act (INSTALL.md)")
    logging.basicConfig(level=logging.INFO, format="%(name)s: %(message)s", stream=sys.stderr)
    coscheduling_daemon.pair(settings, _client(settings))
    return 0


def _client(settings: "Settings") -> "CommandClient":
    from slurm_ext.slurm import CommandClient

    return CommandClient(
        bin_dir=settings["paths.slurm_bin"], slurm_conf=settings["paths.slurm_conf"]
    )


def _status(settings: "Settings") -> dict[str, Any]:
    from slurm_ext.control.coscheduling.pair_memory import PairingFolder
    from slurm_ext.core.errors import MissingError

    found = PairingFolder(settings.state_dir).told("mode", "waiting", "running", "left_alone")
    if found is None:
        raise MissingError("no `dlqueue control --pairs` runs here", "start it")
    return found


def _show(status: dict[str, Any], as_json: bool) -> int:
    if as_json:
        print(json.dumps(status))
    else:
        _print(status)
    return 0


def _print(status: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table("job", "now", "node", "why or how fast", box=None)
    for one in status["waiting"]:
        now = "starts" if one["start"] else "may start" if one.get("free") else "waits"
        table.add_row(one["job"], now, one["place"] or "-", escape(one["reason"]))
    for one in status["running"]:
        speed = "" if one["speed"] is None else f"{one['speed']:.0%} of its speed alone"
        table.add_row(one["job"], "runs", one["node"], speed)
    for job, why in sorted(status["left_alone"].items()):
        table.add_row(job, "left alone", "-", escape(why))
    console = Console()
    console.print(f"mode {status['mode']}", highlight=False)
    console.print(table)
