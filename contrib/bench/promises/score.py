"""Scores of promises by surroundings: coverage, error, jobs slowed, cores that were missed."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

Earlier = tuple[str, int, int | None, float]  # of a run: where, CPUs, workers told, samples/s
COVERED = (0.85, 0.95)  # share of intervals with what came in them
MOST_ERROR = 0.10  # median
SLOWER = 0.95  # of the rate as written, in the same surroundings: more than two runs differ by


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """A promise to one job, and its run; rates in samples/s by the clock of its program."""

    training: int
    surroundings: str
    runs: int  # of before
    action: str
    message: str
    predicted: float  # in the world that its record says it met, else that of its surroundings
    low: float
    high: float
    beside: bool  # that world: others on its cores
    by_surroundings: bool  # its record does not know
    achieved: float
    as_written: float | None  # of a changed job, in the same surroundings
    cpus: tuple[int, int]  # as written, as it ran
    drawn: dict[str, Any]  # the training
    earlier: tuple[Earlier, ...]

    @property
    def inside(self) -> bool:
        """True if the interval contains what was achieved."""
        return self.low <= self.achieved <= self.high

    @property
    def slowed(self) -> bool:
        """True if the job would have been faster as its user wrote it."""
        return self.as_written is not None and self.achieved < SLOWER * self.as_written

    @property
    def lost_cores(self) -> bool:
        """True if it had fewer cores than written, and was slower for it."""
        return self.slowed and self.cpus[1] < self.cpus[0]


def scores(promises: Sequence[Promise]) -> dict[str, Any]:
    """Figures of each surroundings, and of all."""
    places = sorted({one.surroundings for one in promises})
    of = {place: [p for p in promises if p.surroundings == place] for place in places}
    return {"all": _figures(promises), **{place: _figures(some) for place, some in of.items()}}


def _figures(promises: Sequence[Promise]) -> dict[str, Any]:
    changed = [one for one in promises if one.as_written is not None]
    errors = [abs(one.predicted / one.achieved - 1) for one in promises]
    return {
        "promises": len(promises),
        "coverage90": sum(one.inside for one in promises) / len(promises),
        "median_error": median(errors),
        "median_high_over_low": median(one.high / one.low for one in promises),
        "beside": sum(one.beside for one in promises),
        "worlds_by_surroundings": sum(one.by_surroundings for one in promises),
        "changed": len(changed),
        "slowed": sum(one.slowed for one in changed),
        "lost_cores": sum(one.lost_cores for one in changed),
        "median_gain": median(one.achieved / (one.as_written or 1) for one in changed)
        if changed
        else None,
    }
