"""Options of a site: limits of its QOS and partitions, and nodes that come and go."""

import argparse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import inf

from slurm_ext.cli.simulate.command import check
from slurm_ext.core.errors import UsageError
from slurm_ext.simulate.limits.limited_trace import LimitedTrace, Limits, with_usual_qos
from slurm_ext.simulate.limits.qos_file import read_qos
from slurm_ext.simulate.outages.failures import Failures
from slurm_ext.simulate.outages.node_counts import check_counts, read_node_counts
from slurm_ext.simulate.outages.outages import Outages
from slurm_ext.simulate.planning.slurm_conf import global_values
from slurm_ext.simulate.queue.cluster import Cluster, within_partitions
from slurm_ext.simulate.queue.rooms import partitions_of
from slurm_ext.simulate.trace.columns import Trace
from slurm_ext.simulate.trace.times import zone_of

DAY_S, HOUR_S, MINUTE_S = 86400.0, 3600.0, 60.0
REPAIR_HOURS = 24.0
REQUEUE = "requeue"
ENFORCING = {"limits", "safe", "all"}
OF_FAILURES = ("repair_hours", "on_failure", "checkpoint_minutes")


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A site as the options say, beside its nodes."""

    limits: Limits | None
    outages: Outages | None

    def within(self, trace: Trace, cluster: Cluster) -> Trace:
        """The trace without the jobs that a limit never lets start. Raises InputError."""
        trace = within_partitions(trace, cluster)
        if self.limits is None:
            return trace
        return LimitedTrace(with_usual_qos(trace, self.limits), self.limits).within()

    @property
    def priorities(self) -> Mapping[str, float] | None:
        """Priorities of the QOS; None: they are not known."""
        return None if self.limits is None else self.limits.table.priorities()

    def notes(self, args: argparse.Namespace) -> Iterator[str]:
        """Remarks without which the figures would mislead."""
        if self.limits is not None:
            yield from (f"{name} is not replayed" for name in self.limits.not_kept())
        yield from _not_enforced(args)

    def only_planned(self) -> bool:
        """True if only a planning queue can replay it."""
        return self.limits is not None or self.outages is not None


def site_of(args: argparse.Namespace, cluster: Cluster) -> Site:
    """Read the files of the options. Raises UsageError and InputError."""
    return Site(limits=_limits(args, cluster), outages=_outages(args, cluster))


def _not_enforced(args: argparse.Namespace) -> Iterator[str]:
    """A note where the site's Slurm would not keep the limits that are replayed."""
    if args.qos is None or args.slurm_conf is None:
        return
    words = global_values(args.slurm_conf).get("accountingstorageenforce", "none").lower()
    if not ENFORCING & {word.strip() for word in words.split(",")}:
        yield f"AccountingStorageEnforce={words}: Slurm itself would not keep the limits of --qos"


def _limits(args: argparse.Namespace, cluster: Cluster) -> Limits | None:
    if args.qos is None:
        return None
    if cluster.vcs:
        raise UsageError("--qos: its limits are of one cluster: --nodes, or --slurm-conf's nodes")
    of_partition: dict[str, str] = {}
    if cluster.layout is not None:
        named = cluster.layout.partitions
        of_partition = {name: one.qos for name, one in named.items() if one.qos}
        if cluster.layout.usual in of_partition:
            of_partition[""] = of_partition[cluster.layout.usual]
    table = read_qos(args.qos)
    return Limits(table=table, of_partition=of_partition, cpus=args.count == "cpus")


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
    check("--checkpoint-minutes", args.checkpoint_minutes, 0.1, 1e6)
    if args.mtbf_days is None:
        for name in OF_FAILURES:
            if getattr(args, name) is not None:
                raise UsageError(f"--{name.replace('_', '-')} says nothing without --mtbf-days")
        return None
    saves = args.checkpoint_minutes
    repair_hours = REPAIR_HOURS if args.repair_hours is None else args.repair_hours
    return Failures(
        between_s=args.mtbf_days * DAY_S,
        repair_s=repair_hours * HOUR_S,
        requeues=(args.on_failure or REQUEUE) == REQUEUE,
        saves_s=inf if saves is None else saves * MINUTE_S,
    )
