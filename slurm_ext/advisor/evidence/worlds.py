"""Worlds in which a job's change has to hold, beside the one that its last runs met. Pure.

Where the last runs met others on their cores, its own cores alone are a world as well. Where any
run did, so is the most crowded of them. And where Slurm does not keep jobs on cores of their own, a
full node is one: each core has a process of somebody's that always wants it, the job's processes
run on any of them, each with the kernel's share for one process, and CPUs that the job gives back
bring processes of others. There a job with fewer workers than written has a smaller share.

A world says the rate of the whole run, its workers' starts included, which take as much longer.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from slurm_ext.advisor.evidence.whole_run import WholeRun, starts
from slurm_ext.core.records import Decision, Prediction, Shape

if TYPE_CHECKING:  # imported with the first evidence
    from slurm_ext.model.throughput.curve import Curve
    from slurm_ext.model.throughput.estimate import Estimate

FULL = 2.0  # processes of others for each core of a full node: twice what Slurm counts there
World = Callable[[Shape], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """A training on cores that others want: its own, or those of the whole node."""

    curve: "Curve"
    whole: WholeRun
    others: float  # for each core
    met: float  # the same where its runs started their workers
    node_cores: int  # of the machine
    shared_by: int | None = None  # the job's CPUs as written, where it shares all of the node's

    def rate(self, shape: Shape) -> float:
        """Samples/s of one process of the job."""
        from slurm_ext.model.throughput.curve import at_beside

        cores, others = min(shape.cpus_per_task, self.node_cores), self.others
        if self.shared_by is not None:
            others += max(0, min(self.shared_by, self.node_cores) - cores) / self.node_cores
            cores = self.node_cores
        own = cores / self.whole.per_task
        point = at_beside(self.curve, others, shape.num_workers, own, claims=others > 0)
        starts_s = self.whole.start_s * starts(shape.num_workers, own)
        longer = (1 + others) / (1 + self.met)
        return 1 / (1 / point.samples_per_s + self.whole.beside_s + longer * starts_s)


def worlds_of(
    known: "Estimate", whole: WholeRun, *, node_cores: int, shared_by: int | None
) -> list[World]:
    """The worlds of a job; none where no run met others and its cores are its own.

    `shared_by`: the job's CPUs as written, where Slurm does not keep jobs on their own.
    """
    from slurm_ext.model.throughput.estimate import curve_of

    quiet = _Place(
        curve=curve_of(known), whole=whole, others=0.0, met=known.others, node_cores=node_cores
    )
    places = [quiet] if known.others else []
    if known.most_others:
        places.append(replace(quiet, others=known.most_others))
    if shared_by is not None:
        full = max(FULL, known.most_others)
        places.append(replace(quiet, others=full, shared_by=shared_by))
    return [place.rate for place in places]


def told(decision: Decision, worlds: Sequence[World]) -> Decision:
    """The decision with intervals that reach down to what the job would do in each world."""
    before, after = decision.predicted_before, decision.predicted_after
    if not worlds or before is None or after is None:
        return decision
    return replace(
        decision,
        predicted_before=_reaching(before, worlds),
        predicted_after=_reaching(after, worlds),
    )


def _reaching(steady: Prediction, worlds: Sequence[World]) -> Prediction:
    share = min(world(steady.shape) for world in worlds) / steady.samples_per_s
    bounds = steady.interval
    return replace(steady, interval=replace(bounds, low=min(1.0, share) * bounds.low))
