"""Choose which waiting job starts next, and where, so that jobs do not slow each other. Pure.

Jobs of a node run on cores of their own; they share its caches, memory and storage. Slurm starts
the first job that fits. Here a job that passes the floor (choose_pairs.py) beside those that run
starts there, matched for the most time saved; a waiting pair takes an idle node; a job that fits
beside no other has an idle node for itself. No node that a fitting job could use now is kept for a
better one, and a job that waited long enough, or that others passed for as long, starts as Slurm
decides. So does every job that no other can hurt (candidates.py) or that no node is open to. The
next job of a node is released before its slot is free (lookahead.py), so that Slurm starts it at
once; the others wait for the next round.
"""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet

from slurm_ext.policy.colocation.candidates import at_stake
from slurm_ext.policy.colocation.choose_pairs import Candidate, SharingRules, SpeedPredictor
from slurm_ext.policy.colocation.lookahead import release_next
from slurm_ext.policy.colocation.placement_round import NodeSlot, PlacementAction, PlacementRound

__all__ = ["NodeSlot", "PlacementAction", "place_waiting", "rooms"]


def place_waiting(
    waiting: Sequence[Candidate],
    running: Sequence[Candidate],
    places: Sequence[NodeSlot],
    slowdowns: SpeedPredictor,
    *,
    rules: SharingRules,
    overdue: AbstractSet[str] = frozenset(),
    coming: AbstractSet[str] = frozenset(),
    bound: Mapping[str, str] | None = None,
) -> tuple[PlacementAction, ...]:
    """Return one action for each waiting job, in the queue's order; raises InputError as `pairs`.

    `coming`: those of `running` that were released and do not run yet. `bound`: waiting jobs
    that are free already to start at a place: where it has room, Slurm is about to start them.
    """
    round_ = PlacementRound(waiting, running, places, slowdowns, rules)
    affected = at_stake(round_.waiting, running, slowdowns, rules)
    for candidate in round_.waiting:
        if candidate.job in overdue:
            round_.release(candidate.job, "has waited long enough", start=True)
        elif candidate.job not in affected or candidate.nodes == frozenset():
            round_.release(candidate.job, "nothing speaks against it", start=False)
    round_.begin_bound(bound or {})
    round_.begin_all()
    round_.settle(())  # half of a pair that no idle node holds
    release_next(round_, coming)
    round_.keep_waiting()
    return tuple(round_.steps[candidate.job] for candidate in round_.waiting)


def rooms(cpus: Mapping[str, int], used: Iterable[tuple[str, int]]) -> list[NodeSlot]:
    """Places by what each node has and what jobs (node, CPUs) use."""
    free = dict(cpus)
    for node, count in used:
        if node in free:
            free[node] -= count
    return [NodeSlot(name=name, free_cpus=max(0, count)) for name, count in sorted(free.items())]
