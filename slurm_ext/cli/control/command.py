"""`dlqueue control`: a node's live allocator, and the loops that work for the whole cluster."""

import argparse
import json
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from slurm_ext.core.settings.document import Settings
    from slurm_ext.slurm import CommandClient

SLURM_ANSWERS_S = 2.0  # or the round goes on without
HELP = (
    "Move CPUs and workers among the jobs that run on this node (as root, one a node), or do one "
    "of the works for the whole cluster (as root or SlurmUser, one process each)."
)


def configure(parser: argparse.ArgumentParser) -> None:
    """What to do instead of running until told to end."""
    from slurm_ext.cli.control import cluster as control_cluster

    parser.add_argument("verb", nargs="?", choices=("run", "status"), default="run",
                        help="run (default), or show what a running one does")  # fmt: skip
    control_cluster.configure(parser)
    only = parser.add_mutually_exclusive_group()
    for_one_round = "say what would be done now, and why; with a cluster's work: one round of it"
    only.add_argument("--once", action="store_true", help=for_one_round)
    for_a_look = "say what would be done now; nothing is changed or written"
    only.add_argument("--dry-run", action="store_true", help=for_a_look)
    only.add_argument("--restore", action="store_true", help="undo what a killed one left behind")


def run(args: argparse.Namespace) -> int:
    """The exit status. Raises MissingError, InputError or UsageError."""
    from slurm_ext.core.settings.document import load

    settings = load(args.config)
    args.once = args.once or args.dry_run
    if args.loop:
        from slurm_ext.cli.control import cluster as control_cluster

        return control_cluster.run(args, settings)
    if args.pairs:
        from slurm_ext.cli.control import pairs as control_pairs

        return control_pairs.run(args, settings)
    if args.verb == "status":
        return _show(_status(settings), args.json)
    if args.restore:
        return _restore(settings, args.json)
    return _show(_once(settings), args.json) if args.once else _run(settings, args.config)


def _run(settings: "Settings", config: "Path | None") -> int:
    import logging
    from functools import partial

    from slurm_ext.control.allocator.daemon import control
    from slurm_ext.core.errors import UsageError
    from slurm_ext.core.settings.document import load

    if settings["control.mode"] == "off":
        raise UsageError("control.mode is off: set it to shadow or act (INSTALL.md)")
    logging.basicConfig(level=logging.INFO, format="%(name)s: %(message)s", stream=sys.stderr)
    control(settings, _client(settings), partial(load, config))
    return 0


def _once(settings: "Settings") -> dict[str, Any]:
    from slurm_ext.control.allocator.daemon import once

    return once(settings, _client(settings))


def _client(settings: "Settings") -> "CommandClient":
    from slurm_ext.slurm import CommandClient

    return CommandClient(
        bin_dir=settings["paths.slurm_bin"],
        slurm_conf=settings["paths.slurm_conf"],
        timeout_s=SLURM_ANSWERS_S,
    )


def _restore(settings: "Settings", as_json: bool) -> int:
    from slurm_ext.control.allocator.daemon import restore

    count = restore(settings)
    print(json.dumps({"restored": count}) if as_json else f"put back: {count}")
    return 0


def _status(settings: "Settings") -> dict[str, Any]:
    from slurm_ext.control.allocator.undo_log import Folder
    from slurm_ext.core.errors import MissingError
    from slurm_ext.node.common.spool_layout import Spool

    found = Folder(Spool(settings["node.spool_dir"])).told(
        "mode", "reason", "grain_cores", "jobs", "left_alone"
    )
    if found is None:
        raise MissingError("no `dlqueue control` runs on this node", "start it as root")
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

    grain = status["grain_cores"]
    table = Table("job", "share", "has", "wanted", "workers", "wanted", box=None)
    table.add_column("samples/s predicted", justify="right")
    table.add_column("measured", justify="right")
    table.add_column("why")
    for row in status["jobs"]:
        cores = (row["share_units"], row["units"], row["wanted_units"])
        cells = ["-" if units is None else f"{units * grain:g} cores" for units in cores]
        workers = [_figure(row["workers"]), _figure(row["wanted_workers"])]
        rates = [_figure(row["predicted_samples_per_s"]), _figure(row["measured_samples_per_s"])]
        table.add_row(row["job"], *cells, *workers, *rates, escape(row["reason"]))
    for job, why in sorted(status["left_alone"].items()):
        table.add_row(job, *["-"] * 7, f"left alone: {escape(why)}")
    console = Console()
    console.print(f"mode {status['mode']}: {escape(status['reason'])}", highlight=False)
    console.print(table)


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"
