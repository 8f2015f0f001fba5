"""`dlqueue simulate`: what policies would have made of a trace, side by side.

    dlqueue simulate TRACE --policy A,B       queues: jobs of fixed size and length
    dlqueue simulate TRACE --elastic A,B      jobs whose GPUs change while they run
    dlqueue simulate --energy FILE            nodes that sleep while nobody needs them

Schema of --json: contrib/schemas/simulate.json.
"""

import argparse
from collections.abc import Mapping
from importlib import import_module
from math import isfinite
from pathlib import Path
from typing import Any

from slurm_ext.core.errors import UsageError
from slurm_ext.simulate.trace.columns import MOST as MOST_NODES

HELP = (
    "Replay a trace under several policies, side by side: of queues, of elastic jobs (--elastic),"
    " or of nodes that sleep (--energy)."
)
# Kind of replay: the options that say something there.
CLUSTER = ("trace", "nodes", "gpus_per_node", "leave_out_larger", "seed")
OPTIONS: Mapping[str, tuple[str, ...]] = {
    "queue": (
        *CLUSTER,
        "policy",
        "vc_nodes",
        "format",
        "timezone",
        "count",
        "estimates",
        "depth",
        "reservations",
        "slurm_conf",
        "seeds",
        "jobs",
        "qos",
        "associations",
        "mtbf_days",
        "repair_hours",
        "on_failure",
        "checkpoint_minutes",
        "node_counts",
    ),
    "elastic": (*CLUSTER, "elastic", "tables", "interference"),
    "energy": ("energy", "policy", "learn", "suspend_s"),
}
COMMON = ("json", "config", "html", "command")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options; no default here, so that an option of another kind is noticed."""
    from slurm_ext.policy.queue.order import ADDED, ORDERS, USUAL
    from slurm_ext.simulate.energy import policies as energy

    own = "multifactor (with --slurm-conf), or FILE.py:NAME of your own"
    queues = f"{', '.join(ORDERS)}, {own}, with +{' or +'.join(ADDED)}"
    policies = f"of queues: {queues} after it (default: {USUAL}). With --energy:"
    parser.add_argument(
        "trace", type=Path, nargs="?", metavar="TRACE", help="file to replay, plain or .gz"
    )
    parser.add_argument(
        "--policy",
        metavar="A,B",
        help=f"{policies} {', '.join(energy.POLICIES)} (default: {energy.USUAL})",
    )
    _cluster_options(parser)
    _queue_options(parser)
    _site_options(parser)
    _elastic_options(parser)
    _energy_options(parser)
    parser.add_argument("--html", type=Path, metavar="FILE", help="write a page with plots, too")


def _cluster_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--nodes", type=int, metavar="N", help="nodes of the cluster")
    parser.add_argument("--gpus-per-node", type=int, metavar="N", help="GPUs of each (8)")
    parser.add_argument(
        "--leave-out-larger",
        action="store_true",
        default=None,
        help="leave out jobs that never fit",
    )
    parser.add_argument(
        "--seed", type=int, help="queues: decides ties; 0: as in the file. Elastic: of the search"
    )


def _queue_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("queues")
    group.add_argument(
        "--vc-nodes", type=Path, metavar="FILE", help="CSV vc,nodes: each has nodes of its own"
    )
    group.add_argument(
        "--format", help="table, sacct, swf, alibaba or pollux (recognised by the first line)"
    )
    group.add_argument("--timezone", metavar="ZONE", help="of dates that name none (UTC)")
    group.add_argument("--count", choices=("gpus", "cpus"), help="what jobs hold (gpus)")
    group.add_argument(
        "--estimates", type=Path, metavar="FILE", help="CSV job,estimate_s: predicted run times"
    )
    group.add_argument(
        "--depth", type=int, metavar="N", help="waiting jobs that backfill looks at (500)"
    )
    group.add_argument(
        "--slurm-conf",
        type=Path,
        metavar="FILE",
        help="whose priorities and backfill multifactor has; without --nodes, its nodes and"
        " partitions (a job's vc) for all policies; its preemption is replayed, too",
    )
    group.add_argument(
        "--reservations",
        metavar="N",
        help="jobs for which backfill keeps room, or all (1; multifactor: as in slurm.conf)",
    )
    group.add_argument(
        "--seeds", type=int, metavar="N", help="replay with N seeds, and tell the range (1)"
    )
    group.add_argument(
        "--jobs", type=Path, metavar="FILE", help="write a CSV of what became of each job"
    )


def _site_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("queues: limits, and nodes that come and go")
    group.add_argument(
        "--qos",
        type=Path,
        metavar="FILE",
        help="keep the limits of QOS (a job's qos): what `sacctmgr -P show qos` prints, or a file"
        " of `sacctmgr dump`",
    )
    group.add_argument(
        "--associations",
        type=Path,
        metavar="FILE",
        help="keep the limits of accounts and users: what `sacctmgr -P show assoc tree` prints, or"
        " a file of `sacctmgr dump`",
    )
    group.add_argument(
        "--node-counts",
        type=Path,
        metavar="FILE",
        help="CSV time,partition,nodes: how many take jobs from a time on (time as in TRACE)",
    )
    group.add_argument(
        "--mtbf-days",
        type=float,
        metavar="D",
        help="nodes fail, each every D days in the mean, drawn by --seed",
    )
    group.add_argument(
        "--repair-hours", type=float, metavar="H", help="until a failed node is back (24)"
    )
    group.add_argument(
        "--on-failure",
        choices=("requeue", "fail"),
        help="what becomes of a failed node's jobs (requeue)",
    )
    group.add_argument(
        "--checkpoint-minutes",
        type=float,
        metavar="M",
        help="how often jobs save their work, for when they are stopped (never: they begin anew)",
    )


def _elastic_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("elastic jobs")
    group.add_argument(
        "--elastic",
        metavar="A,B",
        help="replay a Pollux workload under ours, genetic, static, tiresias",
    )
    group.add_argument(
        "--tables",
        type=Path,
        metavar="DIR",
        help="measured steps, a folder an application (traces/ beside the folder of TRACE)",
    )
    group.add_argument(
        "--interference",
        type=float,
        metavar="SHARE",
        help="of their speed that jobs of several nodes lose where they share one (0)",
    )


def _energy_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("energy")
    group.add_argument(
        "--energy",
        type=Path,
        metavar="FILE",
        help="replay a demand series, as recorded in control/energy/demand-POOL.csv",
    )
    group.add_argument(
        "--learn",
        type=float,
        metavar="SHARE",
        help="of the series, from its start, that ours learns from; the rest is replayed (0.5)",
    )
    group.add_argument(
        "--suspend-s", type=float, metavar="S", help="SuspendTime of vanilla, in seconds (600)"
    )


def run(args: argparse.Namespace) -> int:
    """Replay and print. Raises UsageError and InputError."""
    from slurm_ext.cli.common.output import put_file
    from slurm_ext.cli.simulate.page import show
    from slurm_ext.report import plots

    kind = kind_of(args)
    if args.html is not None:
        plots.require()
    module = import_module(f"slurm_ext.cli.simulate.{kind}")
    with _progress() as progress:
        replayed = module.replayed(args, progress)
    if args.html is not None:
        put_file(args.html, replayed.page().html(dict(replayed.plots())))
    if args.json:
        import json

        print(json.dumps(replayed.document))
    else:
        show(replayed.page())
    return 0


def kind_of(args: argparse.Namespace) -> str:
    """The kind of replay. Raises UsageError where an option says nothing there."""
    from slurm_ext.core.errors import UsageError

    kind = "energy" if args.energy is not None else "elastic" if args.elastic else "queue"
    for name, value in vars(args).items():
        if value is not None and name not in (*OPTIONS[kind], *COMMON):
            option = name.upper() if name == "trace" else f"--{name.replace('_', '-')}"
            flag = "" if kind == "queue" else f" with --{kind}"
            takes = ", ".join(f"--{other.replace('_', '-')}" for other in OPTIONS[kind][1:])
            raise UsageError(f"{option} says nothing{flag}: a replay of its kind takes {takes}")
    if kind != "energy" and args.trace is None:
        raise UsageError("name the TRACE to replay, or a demand series with --energy FILE")
    return kind


def _progress() -> Any:
    """Bars on stderr, where that is a terminal."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    return Progress(console=console, transient=True, disable=not console.is_terminal)


GPUS_PER_NODE = 8


def check(option: str, value: float | None, least: float, most: float) -> None:
    """Raise UsageError, naming the option and its bounds."""
    if value is not None and not (isfinite(value) and least <= value <= most):
        raise UsageError(f"{option} {value}: a number from {least} to {most} is wanted")


def check_cluster(args: argparse.Namespace) -> None:
    """Check the options that say how large the cluster is."""
    check("--gpus-per-node", args.gpus_per_node, 1, 10**6)
    check("--seed", args.seed, 0, 2**63)
    check("--nodes", args.nodes, 1, MOST_NODES)
