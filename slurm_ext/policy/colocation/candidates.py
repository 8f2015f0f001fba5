"""Which waiting jobs are steered at all: those for which something is at stake. Pure.

Every job that is put off pays for it in start-up time, and in years of priority where a site's
clock counts from the start time. So nobody is, of whom nothing is known; and nobody at all where
all that could meet go well together.
"""

from collections.abc import Iterable, Sequence

from slurm_ext.core.gpu_sharing import RelativeSpeed, SpeedBasis
from slurm_ext.policy.colocation.choose_pairs import (
    Candidate,
    PredictionCache,
    SharingRules,
    SpeedPredictor,
)
from slurm_ext.policy.colocation.why_apart import counted_on, floor_of, lacking, went_badly

HARMLESS = 0.95  # of its speed alone: what is left to gain there is not worth a wait


def at_stake(
    waiting: Sequence[Candidate],
    running: Sequence[Candidate],
    slowdowns: SpeedPredictor,
    rules: SharingRules,
) -> frozenset[str]:
    """Those who are to be steered; the rest starts as Slurm pleases.

    Each is looked at beside whoever runs and the first of the queue, as many as are matched.
    """
    look = _Look(PredictionCache(slowdowns), rules)
    others = _distinct((*running, *waiting[: rules.window]))
    known, hurt = set(), False
    for one in waiting:
        for other in others:
            if other.job != one.job and look.known(one, other):
                known.add(one.job)
                hurt = hurt or look.hurt(one, other)
    return frozenset(known) if hurt else frozenset()


class _Look:
    def __init__(self, once: PredictionCache, rules: SharingRules) -> None:
        self._once, self._rules = once, rules

    def known(self, one: Candidate, other: Candidate) -> bool:
        """True if anything is known of these two together."""
        speeds = self._once.speeds([one, other]).values()
        told = any(speed.evidence is not SpeedBasis.PRIOR for speed in speeds)
        return told or self._apart(one, other)

    def hurt(self, one: Candidate, other: Candidate) -> bool:
        """True if one of them would be slowed down by the other."""
        speeds = self._once.speeds([one, other])
        slow = any(self._slow(each, speeds[each.job]) for each in (one, other))
        return slow or self._apart(one, other)

    def _slow(self, one: Candidate, speed: RelativeSpeed) -> bool:
        least = max(HARMLESS, floor_of(one, self._rules))
        return not counted_on(speed, self._rules) >= least

    def _apart(self, one: Candidate, other: Candidate) -> bool:
        """True if they were too slow together lately, or need more memory than there is."""
        together = [one, other]
        return bool(went_badly(together, self._rules) or lacking(together, self._rules))


def _distinct(jobs: Iterable[Candidate]) -> list[Candidate]:
    """Two of each: a job meets its like."""
    found: dict[tuple[object, ...], list[Candidate]] = {}
    for one in jobs:
        name = (one.solo.key or one.job, one.user, one.device, one.floor, one.opted_in)
        found.setdefault(name, []).append(one)
    return [one for alike in found.values() for one in alike[:2]]
