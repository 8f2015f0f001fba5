"""The cluster that a trace is replayed on: equal nodes, in one pool or in virtual clusters."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache

import numpy as np

from slurm_ext.core.errors import InputError
from slurm_ext.simulate.limits.limited_trace import without
from slurm_ext.simulate.limits.never import WAITS
from slurm_ext.simulate.planning.layout import Layout, Room
from slurm_ext.simulate.trace.columns import Column, Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """`vcs` gives nodes to virtual clusters by name; none: one pool of `nodes`.

    With a layout, `nodes` and `gpus_per_node` are their number and the most that one has.
    """

    nodes: int
    gpus_per_node: int = 8
    vcs: Mapping[str, int] = field(default_factory=dict)
    layout: Layout | None = None  # nodes that differ, in partitions

    @property
    def gpus(self) -> int:
        """GPUs in all."""
        if self.layout is not None:
            return sum(self.layout.sizes)
        return self.gpus_per_node * (sum(self.vcs.values()) if self.vcs else self.nodes)

    def pools(self) -> list[int]:
        """Nodes of each pool."""
        return list(self.vcs.values()) or [self.nodes]

    def pool_of(self, trace: Trace) -> Column:
        """Each job's pool; -1: its virtual cluster has no nodes."""
        if not self.vcs:
            return np.zeros(len(trace), dtype=np.int64)
        numbers = {name: number for number, name in enumerate(self.vcs)}
        of_vc = np.array([numbers.get(name, -1) for name in trace.vcs], dtype=np.int64)
        return of_vc[trace.vc]

    def fits(self, trace: Trace) -> Column:
        """True for each job that can ever run."""
        if self.layout is not None:
            return np.array([room is not None for room in rooms_of(trace, self.layout)])
        most = np.array([*self.pools(), 0]) * self.gpus_per_node
        fitting: Column = trace.gpus <= most[self.pool_of(trace)]
        return fitting


def within_partitions(trace: Trace, cluster: Cluster) -> Trace:
    """The trace without jobs above a limit of their partition; counted, and the first named."""
    places = defaultdict[str, list[int]](list)
    layout = cluster.layout
    for place, job in enumerate(_asked(trace)) if layout is not None else ():
        if layout is not None and (limit := layout.above(*job)):
            fate = "refused" if layout.enforces else WAITS
            places[f"{fate}: {limit}"].append(place)
    return without(trace, places)


def rooms_of(trace: Trace, layout: Layout) -> list[Room | None]:
    """Each job's room on nodes that differ; None: it can never run."""
    room = cache(layout.room)
    return [room(*job) for job in _asked(trace)]


def _asked(trace: Trace) -> Iterator[tuple[int, str, str, float]]:
    """GPUs, partition, model and time limit of each job."""
    partitions = [trace.vcs[number] for number in trace.vc]
    models = [trace.gpu_types[number] for number in trace.gpu_type]
    limits = np.where(np.isnan(trace.limit_s), 0.0, trace.limit_s).tolist()
    return zip(trace.gpus.tolist(), partitions, models, limits, strict=True)


def fitted(trace: Trace, cluster: Cluster, *, leave_out: bool = False) -> Trace:
    """The trace, if the cluster can run all of it; the jobs that it can, if `leave_out`.

    Raises InputError, naming the first job that is too large.
    """
    fits = cluster.fits(trace)
    if leave_out:
        return trace.only(fits, "left out: larger than its cluster")
    if not fits.all():
        first = int(np.argmin(fits))
        place = f" in {trace.vcs[trace.vc[first]]!r}" if cluster.vcs or cluster.layout else ""
        if cluster.layout:
            why = "no such room within the partition's nodes and limits"
            request = f"{trace.gpus[first]} GPUs {trace.gpu_types[trace.gpu_type[first]]}".strip()
            raise InputError(
                trace.source,
                f"job {trace.job[first]} asks for {request}{place}: {why}"
                f" ({np.count_nonzero(~fits)} such jobs; --leave-out-larger leaves them out)",
            )
        raise InputError(
            trace.source,
            f"job {trace.job[first]} asks for {trace.gpus[first]} GPUs{place}, more than there are"
            f" ({np.count_nonzero(~fits)} such jobs): give more --nodes, or leave them out with"
            " --leave-out-larger",
        )
    return trace
