"""Replays of a queue: jobs of fixed size and length."""

import argparse
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from slurm_ext.cli.common.output import put_file
from slurm_ext.cli.simulate.command import GPUS_PER_NODE, check, check_cluster
from slurm_ext.cli.simulate.jobs_text import JobsReplayed, jobs_csv
from slurm_ext.cli.simulate.scheduling import MULTIFACTOR, scheduling_of
from slurm_ext.cli.simulate.site import Site, site_of
from slurm_ext.core.errors import InputError, UsageError
from slurm_ext.simulate.planning.scheduling import Scheduling
from slurm_ext.simulate.planning.scheduling_conf import not_replayed
from slurm_ext.simulate.planning.usual_limits import with_known_times
from slurm_ext.simulate.queue.cluster import Cluster, fitted
from slurm_ext.simulate.queue.custom_policy import FILE, rules_of
from slurm_ext.simulate.queue.engine import DEPTH, replay
from slurm_ext.simulate.queue.priority_conf import PriorityConf, read_priorities
from slurm_ext.simulate.replay_result import ReplayResult
from slurm_ext.simulate.trace.columns import Trace

if TYPE_CHECKING:
    from rich.progress import Progress

    from slurm_ext.policy.queue.order import Rule

MOST_SEEDS = 1000


def replayed(args: argparse.Namespace, progress: "Progress") -> JobsReplayed:
    """Replay the trace under every policy. Raises UsageError and InputError."""
    from slurm_ext.policy.queue.order import USUAL

    cluster, seeds = _cluster(args), _seeds(args)
    site = site_of(args, cluster)
    planned = cluster.layout is not None or site.only_planned()
    policies = args.policy or ",".join(USUAL.split(",")[: -1 if planned else None])
    priorities = None if args.slurm_conf is None else _priorities(args.slurm_conf, site)
    names = {part.strip().partition("+")[0] for part in policies.split(",")}
    if priorities is None and MULTIFACTOR in names:
        raise UsageError(f"--policy {MULTIFACTOR} wants --slurm-conf FILE, whose weights it has")
    rules = rules_of(policies, _orders(priorities))
    look = scheduling_of(args, rules, planned=planned)
    trace = site.within(_trace(args, progress, more=FILE in policies), cluster)
    trace = fitted(trace, cluster, leave_out=bool(args.leave_out_larger))
    if any(rule.backfill for rule in rules):
        trace = with_known_times(trace)
    notes = tuple(site.notes(args, trace))

    def once(rule: "Rule", seed: int) -> ReplayResult:
        return _replay(args, look(rule), trace, cluster, rule, site, seed, progress)

    results = [once(rule, seeds[0]) for rule in rules]
    if args.jobs is not None:
        put_file(args.jobs, jobs_csv(trace, results))
    others = {
        rule.name: [once(rule, seed).figures() for seed in seeds[1:]] for rule in rules if seeds[1:]
    }
    return JobsReplayed(
        kind="queue",
        title="Queue policies",
        source=trace.source,
        nodes=sum(cluster.pools()),
        gpus=cluster.gpus,
        repairs=dict(trace.repairs),
        results=results,
        other_seeds=others,
        left_out=(*priorities.left_out, *not_replayed(args.slurm_conf)) if priorities else (),
        jobs=trace.job,
        notes=(*notes, *(note for result in results for note in result.notes)),
    )


def _priorities(slurm_conf: Path, site: Site) -> PriorityConf:
    """The site's weights, with what its QOS say. Raises InputError."""
    conf = read_priorities(slurm_conf, site.priorities)
    table = site.limits.table if site.limits else None
    return conf if table is None else replace(conf, usage_factors=table.usage_factors())


def _orders(priorities: PriorityConf | None) -> "Mapping[str, Rule]":
    """Our orders, and Slurm's own where its slurm.conf was given."""
    from slurm_ext.policy.queue.order import ORDERS, Rule
    from slurm_ext.simulate.queue.multifactor import Multifactor

    if priorities is None:
        return ORDERS
    multifactor = Rule(
        name=MULTIFACTOR,
        keys=lambda jobs: jobs.submit_s,
        stateful=lambda: Multifactor(priorities),
    )
    return {**ORDERS, multifactor.name: multifactor}


def _seeds(args: argparse.Namespace) -> range:
    """The seeds of the replays; the first one's is shown, the others give the range."""
    check("--seeds", args.seeds, 1, MOST_SEEDS)
    first = args.seed or 0
    return range(first, first + (args.seeds or 1))


def _cluster(args: argparse.Namespace) -> Cluster:
    from slurm_ext.simulate.trace.columns import read_vc_nodes

    check_cluster(args)
    if args.nodes is None and args.vc_nodes is None and args.slurm_conf is not None:
        return _site(args)
    if (args.nodes is None) == (args.vc_nodes is None):
        options = "--nodes N, --vc-nodes FILE, or --slurm-conf FILE with NodeName lines"
        raise UsageError(f"say how large the cluster is: {options}")
    per_node = args.gpus_per_node or GPUS_PER_NODE
    if args.vc_nodes is not None:
        vcs = read_vc_nodes(args.vc_nodes)
        return Cluster(nodes=sum(vcs.values()), gpus_per_node=per_node, vcs=vcs)
    return Cluster(nodes=args.nodes, gpus_per_node=per_node)


def _site(args: argparse.Namespace) -> Cluster:
    """The nodes and partitions of the slurm.conf."""
    from slurm_ext.simulate.planning.layout_conf import read_layout

    layout = read_layout(args.slurm_conf, cpus=args.count == "cpus")
    return Cluster(nodes=len(layout.sizes), gpus_per_node=max(layout.sizes), layout=layout)


def _trace(args: argparse.Namespace, progress: "Progress", *, more: bool) -> Trace:
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
        zone=zone_of(args.timezone or "UTC"),
        cpus=args.count == "cpus",
        more=more,
        progress=lambda lines: progress.update(task, completed=lines),
    )
    progress.update(task, completed=len(trace), total=len(trace))
    return trace if args.estimates is None else with_estimates(trace, args.estimates)


def _replay(
    args: argparse.Namespace,
    look: Scheduling | None,
    trace: Trace,
    cluster: Cluster,
    rule: "Rule",
    site: Site,
    seed: int,
    progress: "Progress",
) -> ReplayResult:
    task = progress.add_task(rule.name, total=len(trace))
    result = replay(
        trace,
        cluster,
        rule,
        seed=seed,
        depth=args.depth or DEPTH,
        scheduling=look,
        limits=site.limits,
        outages=site.outages,
        preemption=site.preemption,
        saves_s=site.saves_s,
        progress=lambda jobs: progress.update(task, completed=jobs),
    )
    progress.update(task, completed=len(trace))
    if not result.completed.any():
        why = next(iter(result.unfinished.values()))
        raise InputError(trace.source, f"{rule.name}: no job completes; the first one: {why}")
    return result
