"""Choose the waiting jobs that are held back at all: those that others could hurt. Pure.

Every job that is held back pays for it in start-up time, and in years of priority where a site's
clock counts from the start time. So a job of which nothing is known is not held back, and none is
where all that could meet run well together.
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
    """Return the jobs that are to be placed; the others start as Slurm decides.

    Each is looked at beside all running jobs and the first of the queue, as many as are matched.
    """
    look = _Look(PredictionCache(slowdowns), rules)
    others = _distinct((*running, *waiting[: rules.window]))
    partnered, hurt = set(), False
    for candidate in waiting:
        for other in others:
            if other.job != candidate.job and look.partnered(candidate, other):
                partnered.add(candidate.job)
                hurt = hurt or look.hurt(candidate, other)
    return frozenset(partnered) if hurt else frozenset()


class _Look:
    def __init__(self, once: PredictionCache, rules: SharingRules) -> None:
        self._once, self._rules = once, rules

    def partnered(self, candidate: Candidate, other: Candidate) -> bool:
        """True if anything is known of these two together."""
        speeds = self._once.speeds([candidate, other]).values()
        measured = any(speed.evidence is not SpeedBasis.PRIOR for speed in speeds)
        return measured or self._apart(candidate, other)

    def hurt(self, candidate: Candidate, other: Candidate) -> bool:
        """True if one of them would be slowed down by the other."""
        speeds = self._once.speeds([candidate, other])
        slow = any(self._slow(member, speeds[member.job]) for member in (candidate, other))
        return slow or self._apart(candidate, other)

    def _slow(self, candidate: Candidate, speed: RelativeSpeed) -> bool:
        least = max(HARMLESS, floor_of(candidate, self._rules))
        return not counted_on(speed, self._rules) >= least

    def _apart(self, candidate: Candidate, other: Candidate) -> bool:
        """True if they were too slow together lately, or need more memory than there is."""
        together = [candidate, other]
        return bool(went_badly(together, self._rules) or lacking(together, self._rules))


def _distinct(jobs: Iterable[Candidate]) -> list[Candidate]:
    """Two of each: a job meets its like."""
    groups: dict[tuple[object, ...], list[Candidate]] = {}
    for candidate in jobs:
        name = (
            candidate.solo.key or candidate.job,
            candidate.user,
            candidate.device,
            candidate.floor,
            candidate.opted_in,
        )
        groups.setdefault(name, []).append(candidate)
    return [candidate for alike in groups.values() for candidate in alike[:2]]
