"""`dlqueue simulate TRACE --policy A,B`: what queue policies would have made of a trace.

Schema of --json: {v, source, jobs, gpus, nodes, repairs: {what: jobs}, policies: [{policy,
jct_mean_s, ..., queue_mean_s, ..., makespan_s, utilisation (0 to 1), restarts}]}.
"""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.progress import Progress

    from slurm_ext.simulate.queue.cluster import Cluster
    from slurm_ext.simulate.replay_result import ReplayResult
    from slurm_ext.simulate.trace.columns import Trace

HELP = "Replay a trace under several queue policies and compare waiting, completion and use."


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    from slurm_ext.policy.queue.order import ADDED, ORDERS, USUAL

    policies = (
        f"{', '.join(ORDERS)}, or FILE.py:FUNCTION of your own,"
        f" with +{' or +'.join(ADDED)} after it (default: %(default)s)"
    )
    parser.add_argument("trace", type=Path, metavar="TRACE", help="file to replay, plain or .gz")
    parser.add_argument("--policy", default=USUAL, metavar="A,B", help=policies)
    parser.add_argument("--nodes", type=int, metavar="N", help="nodes of the cluster")
    parser.add_argument(
        "--gpus-per-node", type=int, default=8, metavar="N", help="GPUs of each (8)"
    )
    parser.add_argument(
        "--vc-nodes", type=Path, metavar="FILE", help="CSV vc,nodes: each has nodes of its own"
    )
    parser.add_argument(
        "--format", help="table, sacct, swf, alibaba or pollux (recognised by the first line)"
    )
    parser.add_argument(
        "--timezone", default="UTC", metavar="ZONE", help="of dates that name none (UTC)"
    )
    parser.add_argument("--count", choices=("gpus", "cpus"), default="gpus", help="what jobs hold")
    parser.add_argument(
        "--estimates", type=Path, metavar="FILE", help="CSV job,estimate_s: run times as foretold"
    )
    parser.add_argument(
        "--leave-out-larger", action="store_true", help="leave out jobs that never fit"
    )
    parser.add_argument(
        "--depth", type=int, metavar="N", help="waiting jobs that backfill looks at (500)"
    )
    parser.add_argument("--seed", type=int, default=0, help="decides ties; 0: as in the file")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write a page with plots, too")


def run(args: argparse.Namespace) -> int:
    """Replay and print. Raises UsageError and InputError."""
    from slurm_ext.cli.common.put_file import put_file
    from slurm_ext.cli.simulate.text import page, show
    from slurm_ext.simulate.queue.cluster import fitted
    from slurm_ext.simulate.queue.custom_policy import rules_of

    rules = rules_of(args.policy)
    cluster = _cluster(args)
    with _progress() as progress:
        trace = fitted(_trace(args, progress), cluster, leave_out=args.leave_out_larger)
        outcomes = [_replay(args, trace, cluster, rule, progress) for rule in rules]
    document = _document(trace, cluster, outcomes)
    if args.html is not None:
        put_file(args.html, page(document, outcomes))
    if args.json:
        import json

        print(json.dumps(document))
    else:
        show(document)
    return 0


def _cluster(args: argparse.Namespace) -> "Cluster":
    from slurm_ext.core.errors import UsageError
    from slurm_ext.simulate.queue.cluster import Cluster
    from slurm_ext.simulate.trace.vc_nodes import MOST, read_vc_nodes

    _within("--gpus-per-node", args.gpus_per_node, 1, 10**6)
    _within("--depth", args.depth, 1, 10**9)
    _within("--seed", args.seed, 0, 2**63)
    _within("--nodes", args.nodes, 1, MOST)
    if (args.nodes is None) == (args.vc_nodes is None):
        raise UsageError("say how large the cluster is: --nodes N, or --vc-nodes FILE")
    if args.vc_nodes is not None:
        vcs = read_vc_nodes(args.vc_nodes)
        return Cluster(nodes=sum(vcs.values()), gpus_per_node=args.gpus_per_node, vcs=vcs)
    return Cluster(nodes=args.nodes, gpus_per_node=args.gpus_per_node)


def _within(option: str, value: int | None, least: int, most: int) -> None:
    from slurm_ext.core.errors import UsageError

    if value is not None and not least <= value <= most:
        raise UsageError(f"{option} {value}: a number from {least} to {most} is wanted")


def _trace(args: argparse.Namespace, progress: "Progress") -> "Trace":
    from slurm_ext.core.errors import UsageError
    from slurm_ext.simulate.trace.estimates import with_estimates
    from slurm_ext.simulate.trace.formats import FORMATS
    from slurm_ext.simulate.trace.read import read
    from slurm_ext.simulate.trace.times import zone_of

    if args.format not in (None, *FORMATS):
        raise UsageError(f"--format {args.format!r}: expected {', '.join(FORMATS)}")
    task = progress.add_task(f"reading {args.trace.name}", total=None)
    trace = read(
        args.trace,
        form=args.format,
        zone=zone_of(args.timezone),
        cpus=args.count == "cpus",
        told=lambda lines: progress.update(task, completed=lines),
    )
    progress.update(task, completed=len(trace), total=len(trace))
    return trace if args.estimates is None else with_estimates(trace, args.estimates)


def _replay(
    args: argparse.Namespace, trace: "Trace", cluster: "Cluster", rule: Any, progress: "Progress"
) -> "ReplayResult":
    from slurm_ext.simulate.queue.engine import DEPTH, replay

    task = progress.add_task(rule.name, total=len(trace))
    outcome = replay(
        trace,
        cluster,
        rule,
        seed=args.seed,
        depth=args.depth or DEPTH,
        told=lambda done: progress.update(task, completed=done),
    )
    progress.update(task, completed=len(trace))
    return outcome


def _document(trace: "Trace", cluster: "Cluster", outcomes: list["ReplayResult"]) -> dict[str, Any]:
    return {
        "v": 1,
        "source": trace.source,
        "jobs": len(trace),
        "nodes": sum(cluster.pools()),
        "gpus": cluster.gpus,
        "repairs": dict(trace.repairs),
        "policies": [{"policy": one.policy, **one.figures()} for one in outcomes],
    }


def _progress() -> "Progress":
    """Bars on stderr, where that is a terminal."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    return Progress(console=console, transient=True, disable=not console.is_terminal)
