"""Options of a site: limits, preemption, and nodes that come and go."""

import argparse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import inf

import numpy as np

from slurm_ext.cli.simulate.command import check
from slurm_ext.cli.simulate.site_limits import limits_of, not_enforced
from slurm_ext.core.errors import UsageError
from slurm_ext.simulate.limits.limited_trace import LimitedTrace
from slurm_ext.simulate.limits.site_limits import Limits, with_usual
from slurm_ext.simulate.outages.failures import Failures
from slurm_ext.simulate.outages.node_counts import check_counts, outside, read_node_counts
from slurm_ext.simulate.outages.outages import Outages
from slurm_ext.simulate.planning.ignored_conf import ignored
from slurm_ext.simulate.planning.preemption_conf import BY_QOS, PreemptionConf, read_preemption
from slurm_ext.simulate.planning.usual_limits import with_usual_limits
from slurm_ext.simulate.queue.cluster import Cluster, within_partitions
from slurm_ext.simulate.queue.rooms import partitions_of
from slurm_ext.simulate.trace.columns import Trace
from slurm_ext.simulate.trace.times import zone_of

DAY_S, HOUR_S, MINUTE_S = 86400.0, 3600.0, 60.0
REPAIR_HOURS = 24.0
REQUEUE = "requeue"
OF_FAILURES = ("repair_hours", "on_failure")


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A site as the options say, beside its nodes."""

    limits: Limits | None
    outages: Outages | None
    preemption: PreemptionConf | None
    saves_s: float = inf  # how often jobs save their work

    def within(self, trace: Trace, cluster: Cluster) -> Trace:
        """The trace without the jobs that a limit never lets start. Raises InputError.

        Jobs without a time limit have then the one that the site gives them.
        """
        trace = within_partitions(trace, cluster)
        most_s = np.full(len(trace), inf)
        if self.limits is not None:
            trace = LimitedTrace(with_usual(trace, self.limits), self.limits).within()
            most_s = LimitedTrace(trace, self.limits).most_s
        return with_usual_limits(trace, cluster.layout, most_s)

    @property
    def priorities(self) -> Mapping[str, float] | None:
        """Priorities of the QOS; None: they are not known."""
        table = self.limits.table if self.limits else None
        return None if table is None else table.priorities()

    def notes(self, args: argparse.Namespace, trace: Trace) -> Iterator[str]:
        """Remarks without which the figures would mislead. Raises InputError."""
        if self.outages is not None and self.outages.counts:
            yield from outside(self.outages.counts, trace, args.node_counts)
        if args.slurm_conf is not None and (names := ignored(args.slurm_conf)):
            yield f"of {args.slurm_conf.name} not replayed: {'; '.join(names)}"
        if self.limits is not None:
            yield from (f"{name} is not replayed" for name in self.limits.not_kept())
        if self.preemption is not None:
            yield from (f"{name} is not replayed" for name in self.preemption.left_out)
            if self.preemption.by == BY_QOS and args.qos is None:
                yield f"PreemptType={BY_QOS} is not replayed without --qos"
        if self.limits is not None and any(
            owner.sums or owner.each for owner, _ in self.limits.sets()
        ):
            yield from not_enforced(args)

    def only_planned(self) -> bool:
        """True if only a planning queue can replay it."""
        return any(part is not None for part in (self.limits, self.outages, self.preemption))


def site_of(args: argparse.Namespace, cluster: Cluster) -> Site:
    """Read the files of the options. Raises UsageError and InputError."""
    preemption = _preemption(args, cluster)
    outages = _outages(args, cluster)
    check("--checkpoint-minutes", args.checkpoint_minutes, 0.1, 1e6)
    stops = args.mtbf_days is not None or preemption is not None
    if args.checkpoint_minutes is not None and not stops:
        raise UsageError("--checkpoint-minutes says nothing where no job is stopped: --mtbf-days")
    return Site(
        limits=limits_of(args, cluster),
        outages=outages,
        preemption=preemption,
        saves_s=inf if args.checkpoint_minutes is None else args.checkpoint_minutes * MINUTE_S,
    )


def _preemption(args: argparse.Namespace, cluster: Cluster) -> PreemptionConf | None:
    """The preemption of --slurm-conf; virtual clusters of a trace have none."""
    if args.slurm_conf is None or cluster.vcs:
        return None
    return read_preemption(args.slurm_conf)


def _outages(args: argparse.Namespace, cluster: Cluster) -> Outages | None:
    failures = _failures(args)
    if args.node_counts is None:
        return None if failures is None else Outages(failures=failures)
    counts = read_node_counts(args.node_counts, zone_of(args.timezone or "UTC"))
    named = {name: nodes for pool in partitions_of(cluster) for name, nodes in pool.items()}
    check_counts(counts, named, args.node_counts)
    return Outages(failures=failures, counts=counts)


def _failures(args: argparse.Namespace) -> Failures | None:
    check("--mtbf-days", args.mtbf_days, 0.01, 1e6)
    check("--repair-hours", args.repair_hours, 0.0, 1e6)
    if args.mtbf_days is None:
        for name in OF_FAILURES:
            if getattr(args, name) is not None:
                raise UsageError(f"--{name.replace('_', '-')} says nothing without --mtbf-days")
        return None
    repair_hours = REPAIR_HOURS if args.repair_hours is None else args.repair_hours
    return Failures(
        between_s=args.mtbf_days * DAY_S,
        repair_s=repair_hours * HOUR_S,
        requeues=(args.on_failure or REQUEUE) == REQUEUE,
    )
