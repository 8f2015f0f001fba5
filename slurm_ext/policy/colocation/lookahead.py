"""Release the next job of each node before its slot is free. Pure.

Between the end of one job and the start of the next pass a look at the queue and Slurm's next
second. So the policy is asked what it would do if on every node the job that is expected to end
first had ended. A job that would start then is released for that node now, if it may run beside
the others whichever of them ends first. The others wait for what really happens.
"""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

from slurm_ext.policy.colocation.choose_pairs import Candidate
from slurm_ext.policy.colocation.placement_round import NodeSlot, PlacementAction, PlacementRound


def release_next(round_: PlacementRound, coming: AbstractSet[str]) -> None:
    """Set the action of the next jobs; no job is next where another is about to start."""
    first = _first_to_end(round_, coming)
    left = round_.left()
    if not first or not left:
        return
    later = _later(round_, left, first)
    for candidate in later.begun:
        fellows = [o for o in later.begun if o.place == candidate.place and o is not candidate]
        if _surely_well(round_, candidate, fellows):
            round_.steps[candidate.job] = _next(later.steps[candidate.job])


def _first_to_end(round_: PlacementRound, coming: AbstractSet[str]) -> dict[str, Candidate]:
    """By node; an unknown time left is the longest."""
    new = {candidate.job for candidate in round_.begun} | coming
    unsettled = {candidate.place for candidate in round_.running if candidate.job in new}
    first: dict[str, Candidate] = {}
    for candidate in sorted(round_.running, key=_end):
        if candidate.place in round_.free and candidate.place not in unsettled:
            first.setdefault(candidate.place, candidate)
    return first


def _later(
    round_: PlacementRound, left: Sequence[Candidate], first: dict[str, Candidate]
) -> PlacementRound:
    """The round that will be when these have ended."""
    gone = {candidate.job for candidate in first.values()}
    here = [
        candidate
        for candidate in round_.running
        if candidate.place in first and candidate.job not in gone
    ]
    places = [
        NodeSlot(name=name, free_cpus=round_.free[name] + candidate.cpus)
        for name, candidate in first.items()
    ]
    later = PlacementRound(left, here, places, round_.slowdowns, round_.rules)
    later.begin_all()
    return later


def _surely_well(
    round_: PlacementRound, candidate: Candidate, fellows: Sequence[Candidate]
) -> bool:
    """True if it may run beside all jobs that may be there when Slurm finds room for it."""
    here = [other for other in round_.running if other.place == candidate.place]
    remain = [[other for other in here if other is not gone] for gone in here]
    if round_.free[candidate.place or ""] >= candidate.cpus:
        remain.append(here)  # Slurm would start it at once
    return not any(round_.in_the_way(candidate, [*others, *fellows]) for others in remain)


def _next(step: PlacementAction) -> PlacementAction:
    return replace(step, start=False, room=False, reason=f"next there: {step.reason}")


def _end(candidate: Candidate) -> tuple[bool, float, str]:
    return candidate.remaining_s is None, candidate.remaining_s or 0.0, candidate.job
