"""Worlds in which a job's change has to hold, beside the one that its last runs met. Pure.

Where the last runs met others on their cores, its own cores alone are a world as well. Where any
run did, so is the most crowded of them.

Where Slurm does not keep jobs on cores of their own, CPUs are a number: alone the job's processes
run on all cores of the node, whatever it asked for. On a full node each core has a process of
somebody's that always wants it, the job's have the kernel's share for one process each, and CPUs
that the job gives back bring processes of others. There a job with fewer workers than written has a
smaller share. What cores of its own would bring is how a job is sized there, too, because what it
takes beyond its CPUs is others'; but no such job ever has them. So a change has to gain alone on
the node or beside the usual others, and these two are what is told.

A world says the rate of the whole run, its workers' starts included, which take as much longer.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import exp, hypot, log
from typing import TYPE_CHECKING

from slurm_ext.advisor.evidence.whole_run import WholeRun, starts
from slurm_ext.core.records import Decision, Elsewhere, Interval, Prediction, Shape
from slurm_ext.core.stats import NORMAL_90

if TYPE_CHECKING:  # imported with the first evidence
    from slurm_ext.model.throughput.curve.costs import Curve
    from slurm_ext.model.throughput.estimate import Estimate

# Processes of others for each core of a full node: as many as Slurm counts there, and twice that.
USUAL, FULL = 1.0, 2.0
World = Callable[[Shape], float]
NO_GAIN = "no CPU is kept for it here, and alone on its node or beside others it would gain nothing"


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
        from slurm_ext.model.throughput.curve.beside import at_beside

        cores, others = min(shape.cpus_per_task, self.node_cores), self.others
        if self.shared_by is not None:
            given_back = max(0, min(self.shared_by, self.node_cores) - cores)
            others += given_back / self.node_cores if others else 0
            cores = self.node_cores
        own = cores / self.whole.per_task
        point = at_beside(self.curve, others, shape.num_workers, own, claims=others > 0)
        starts_s = self.whole.start_s * starts(shape.num_workers, own)
        longer = (1 + others) / (1 + self.met)
        lost_s = self.whole.beside_s + self.whole.trial(shape.num_workers)
        return 1 / (1 / point.samples_per_s + lost_s + longer * starts_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Crowd:
    """Others on the cores of a job whose last runs met none."""

    usual: World
    most: World | None = None  # None: earlier runs met the usual ones; else nobody has seen any

    def told(self, own: Prediction, factor: float, beside: float) -> Prediction:
        """The prediction with the rate beside them: as doubtful as its own, and as they differ.

        `factor`, `beside`: of the widths of intervals on cores of its own, and on crowded ones.
        """
        from slurm_ext.model.throughput.spread import OTHERS_SD

        alone = own.samples_per_s
        bounds = own.interval.widened(alone, 1 / factor)
        rate = min(alone, self.usual(own.shape))
        below, above = log(alone / bounds.low), log(bounds.high / alone)
        if self.most is None:
            felt = NORMAL_90 * OTHERS_SD * log(alone / rate)
            below, above = hypot(below, felt), hypot(above, felt)
        else:
            below += max(0.0, log(rate / self.most(own.shape)))
            above += log(alone / rate)
        interval = Interval(rate * exp(-below), rate * exp(above), bounds.level)
        return replace(own, elsewhere=Elsewhere(rate, interval, True).widened(beside))


@dataclass(frozen=True, slots=True, kw_only=True)
class Worlds:
    """Worlds in which a job's change has to hold, and the crowd that it has not met lately."""

    rates: Sequence[World] = ()
    crowd: Crowd | None = None
    real: Sequence[World] = ()  # of a job that roams its node: a change has to gain in one

    def worth(self, decision: Decision, min_gain: float) -> Decision:
        """The decision where it gives CPUs back, or gains in a real world; else to leave it."""
        before, after = decision.before, decision.after
        if not self.real or before == after or after.cpus_per_task < before.cpus_per_task:
            return decision
        if any(rate(after) >= (1 + min_gain) * rate(before) for rate in self.real):
            return decision
        left = replace(decision, action="leave", reason=NO_GAIN, after=before)
        return replace(left, predicted_after=decision.predicted_before)

    def told(self, decision: Decision, factor: float, beside: float) -> Decision:
        """The decision with rates beside a crowd, where its own are on cores of its own."""
        before, after = decision.predicted_before, decision.predicted_after
        if self.crowd is None or before is None or after is None:
            return decision
        return replace(
            decision,
            predicted_before=self.crowd.told(before, factor, beside),
            predicted_after=self.crowd.told(after, factor, beside),
        )


def worlds_of(
    known: "Estimate", whole: WholeRun, *, node_cores: int, shared_by: int | None
) -> Worlds:
    """The worlds of a job; none where no run met others and its cores are its own.

    `shared_by`: the job's CPUs as written, where Slurm does not keep jobs on their own.
    """
    from slurm_ext.model.throughput.estimate import curve_of

    quiet = _Place(
        curve=curve_of(known),
        whole=whole,
        others=0.0,
        met=known.others,
        node_cores=node_cores,
        shared_by=shared_by,
    )
    places, crowd = [quiet] if known.others or shared_by is not None else [], None
    real: list[World] = []
    if known.most_others:
        places.append(replace(quiet, others=known.most_others))
        crowd = None if known.others else Crowd(usual=places[-1].rate)
    if shared_by is not None:
        full = replace(quiet, others=max(FULL, known.most_others))
        places.append(full)
        crowd = crowd or Crowd(usual=replace(full, others=USUAL).rate, most=full.rate)
        usual = replace(full, others=known.others or known.most_others or USUAL)
        real = [quiet.rate, usual.rate]
    rates = [place.rate for place in places]
    return Worlds(rates=rates, crowd=None if known.by_other_jobs else crowd, real=real)
