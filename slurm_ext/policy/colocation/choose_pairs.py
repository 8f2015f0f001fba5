"""Choose which jobs may share a node or a GPU, and which of them should. Pure.

Total throughput almost always rises with sharing, so the floor is the test: a job shares only
where the lower bound of its predicted speed, beside all that it would be together with, is at least
its floor, and the same holds for each of them. Then memory has to fit, the jobs are of one user
(unless the site says otherwise), all have agreed, and the same jobs were not below the floor
together lately (why_apart.py). The weight of a pair that passes is the seconds of work that the
place is free earlier than if they ran one after another, computed at the lower bounds. Lucid and
Gavel weigh pairs by rates alone; remaining times also show that a long job gains little beside a
short one. A matching of maximum weight (matching.py) takes the best set of pairs.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations, product
from math import isfinite

from slurm_ext.core.gpu_sharing import RelativeSpeed
from slurm_ext.policy.colocation.matching import Edge, best_matching
from slurm_ext.policy.colocation.terms import (
    Candidate,
    Pair,
    SharingRules,
    SharingVerdict,
    SpeedPredictor,
    check,
)
from slurm_ext.policy.colocation.why_apart import (
    below,
    lacking,
    meets,
    typical,
    unwilling,
    weight_of,
    went_badly,
    why_apart,
)

NO_TIME = "there was no time to predict it beside all that it may meet"
EARLIER = 1e-3  # of a pair's weight: what one place in the queue counts for
Fits = Callable[[Sequence[Candidate], str | None], bool]

__all__ = [
    "Candidate",
    "Pair",
    "PredictionCache",
    "SharingRules",
    "SharingVerdict",
    "SpeedPredictor",
    "fit_to_share",
    "pairs",
]


def pairs(
    candidates: Sequence[Candidate],
    running: Sequence[Candidate],
    slowdowns: SpeedPredictor,
    *,
    rules: SharingRules,
    fits: Fits | None = None,
) -> tuple[Pair, ...]:
    """Choose pairs of waiting jobs with waiting or running ones; best first.

    The order of the arguments does not matter: the queue's is `rank`. A waiting job is in one
    pair at most, and a place takes one more job at most. Jobs beyond the window are matched
    among themselves, 32 at a time. `fits`: whether these newcomers have room at that place, or
    (None) at some other. Raises InputError where a job is described wrongly.
    """
    check(candidates, running, rules)
    waiting = sorted(candidates, key=lambda candidate: (candidate.rank, candidate.job))
    groups = _groups(running)
    typical_s = typical((*waiting, *running))
    weighing = _Weighing(PredictionCache(slowdowns), rules, typical_s, fits or _anywhere)
    chosen: list[Pair] = []
    for first in range(0, len(waiting), rules.window):
        window = waiting[first : first + rules.window]
        made = _matched(_possible(window, groups, weighing), window)
        taken = {pair.place for pair in made}
        groups = [group for group in groups if group[0].place not in taken]
        chosen += made
    return tuple(sorted(chosen, key=lambda pair: (-pair.weight, pair.jobs)))


def fit_to_share(
    candidate: Candidate,
    others: Sequence[Candidate],
    slowdowns: SpeedPredictor,
    rules: SharingRules,
    *,
    in_time: Callable[[], bool] = lambda: True,
) -> SharingVerdict:
    """Decide if this job may share with whichever of `others` Slurm puts beside it.

    Those that it must not meet at all (other users, no consent) do not count. Where nobody is
    left, its own twin is asked for, which is the likeliest: a sweep. InputError as `pairs`.
    `in_time` is asked before each: once it is false, those that are left are not looked at, and
    the job does not share.
    """
    check([candidate], [], rules)
    alone = unwilling(candidate, rules)
    if alone is not None:
        return SharingVerdict(share=False, worst=None, beside=None, reason=alone)
    met = [
        neighbour
        for neighbour in others
        if neighbour.job != candidate.job and meets(candidate, neighbour, rules)
    ]
    once = PredictionCache(slowdowns)
    worst: SharingVerdict | None = None
    for other in met or [candidate]:
        if not in_time():
            return SharingVerdict(share=False, worst=None, beside=None, reason=NO_TIME)
        verdict = _beside(candidate, other, once, rules)
        if not verdict.share:
            return verdict
        if worst is None or (verdict.worst or 0.0) < (worst.worst or 0.0):
            worst = verdict
    return worst or SharingVerdict(
        share=False, worst=None, beside=None, reason="nobody to share with"
    )


def why_not(
    candidate: Candidate, here: Sequence[Candidate], slowdowns: SpeedPredictor, rules: SharingRules
) -> str | None:
    """Reason in one clause why a job cannot join those that run together; None if it can."""
    together = [candidate, *here]
    return why_apart(together, PredictionCache(slowdowns).speeds(together), rules)


def _anywhere(_newcomers: Sequence[Candidate], _place: str | None) -> bool:
    return True


def _beside(
    one: Candidate, other: Candidate, once: "PredictionCache", rules: SharingRules
) -> SharingVerdict:
    """The verdict on this job and one other; the other may be its own twin."""
    own_speed, other_speed = once.speed(one, [other]), once.speed(other, [one])
    if other.job == one.job:
        why = went_badly([one, other], rules) or lacking([one, other], rules)
        why = why or below([one], {one.job: own_speed}, rules)
    else:
        why = why_apart([one, other], {one.job: own_speed, other.job: other_speed}, rules)
    reason = why or f"at least {own_speed.low:.0%} of its speed alone, {own_speed.evidence.value}"
    low = own_speed.low if isfinite(own_speed.low) else None
    return SharingVerdict(share=why is None, worst=low, beside=other.solo.key, reason=reason)


def _matched(possible: Mapping[Edge, Pair], window: Sequence[Candidate]) -> list[Pair]:
    """The best pairs; among equal ones those of the jobs that came first."""
    late = {candidate.job: 1 - EARLIER * at for at, candidate in enumerate(window)}
    weights = {
        (a, b): pair.weight * late.get(a, 1.0) * late.get(b, 1.0)
        for (a, b), pair in possible.items()
    }
    return [possible[edge] for edge in best_matching(weights)]


def _possible(
    window: Sequence[Candidate], groups: Sequence[Sequence[Candidate]], weighing: "_Weighing"
) -> dict[Edge, Pair]:
    """Every pair that is allowed and saves time; jobs that run together are one end."""
    ends = [[candidate] for candidate in window]
    twos = [*combinations(ends, 2), *product(ends, groups)]
    tried = (((a[0].job, b[0].job), weighing.pair(a, b)) for a, b in twos)
    return {edge: pair for edge, pair in tried if pair is not None}


class _Weighing:
    """Weights of pairs."""

    def __init__(
        self, once: "PredictionCache", rules: SharingRules, typical_s: float, fits: Fits
    ) -> None:
        self._once, self._rules, self._typical_s, self._fits = once, rules, typical_s, fits

    def pair(self, a: Sequence[Candidate], b: Sequence[Candidate]) -> Pair | None:
        """A newcomer and another, or those that run together; None: not allowed, or no gain."""
        place = b[0].place
        together = sorted((*a, *b), key=lambda candidate: candidate.job)
        if len(together) > self._rules.most_together:
            return None
        if not self._fits(a if place else together, place):
            return None
        speeds = self._once.speeds(together)
        if why_apart(together, speeds, self._rules) is not None:
            return None
        weight = weight_of(a, b, speeds, self._typical_s)
        if not weight > 0:
            return None
        return Pair(
            jobs=tuple(candidate.job for candidate in together),
            speeds=speeds,
            weight=weight,
            place=place,
            reason=_reason(speeds, weight),
        )


def _reason(speeds: Mapping[str, RelativeSpeed], weight: float) -> str:
    bounds = ", ".join(f"{job} at least {speed.low:.0%}" for job, speed in sorted(speeds.items()))
    return f"{bounds} of their speed alone; {weight:.0f} s earlier than one after the other"


def _groups(running: Sequence[Candidate]) -> list[list[Candidate]]:
    """Jobs that run, by place."""
    places: dict[str, list[Candidate]] = {}
    for candidate in sorted(running, key=lambda candidate: candidate.job):
        places.setdefault(candidate.place or "", []).append(candidate)
    return [places[place] for place in sorted(places)]


class PredictionCache:
    """Asks for each speed once: many jobs of a queue are the same job again."""

    def __init__(self, slowdowns: SpeedPredictor) -> None:
        self._slowdowns = slowdowns
        self._known: dict[tuple[str, str, tuple[str, ...]], RelativeSpeed] = {}

    def speeds(self, together: Sequence[Candidate]) -> dict[str, RelativeSpeed]:
        """Each one's, beside all the others."""
        return {
            candidate.job: self.speed(
                candidate, [other for other in together if other is not candidate]
            )
            for candidate in together
        }

    def speed(self, candidate: Candidate, beside: Sequence[Candidate]) -> RelativeSpeed:
        """Its speed beside all of them."""
        query = (candidate.device, _name(candidate), tuple(sorted(map(_name, beside))))
        if query not in self._known:
            solos = [other.solo for other in beside]
            self._known[query] = self._slowdowns.speed(candidate.solo, solos, candidate.device)
        return self._known[query]


def _name(candidate: Candidate) -> str:
    """Key that is the same for the next run of the job; without a solo key the job's own."""
    return candidate.solo.key or f"job {candidate.job}"
