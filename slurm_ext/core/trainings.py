"""Trainings of one job: processes that train together, and the rate of all of them as a whole.

Pure. The rate that people see and that predictions are held against is the whole job's: samples of
all processes that train together, over their training's wall time; what several ranks read together
(same_batches.py) counts once. That time is of the whole run: first epoch, every pass over the
training data, every start of its workers, gathering the data of the next pass, and what the loop
computes between two passes without a validation there. Validations, and waiting for a disk or a
user between two passes, are not in it. The steady rate beside it (loader_run.py) is one
process's in its later epochs, once its workers run: the model's unit. `outcomes` (store/schema.py)
and advisor/evidence/whole_run.py compare one process's share of the whole rate.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

from slurm_ext.core.findings.same_batches import share_of_each, with_share
from slurm_ext.core.findings.strands import Strand, seconds, strands, total, wall_s

TOGETHER = 0.5  # of the shorter life: processes that overlap by less came one after the other
MAX_RANKS = 1_000_000  # a larger world_size is not believed
MAX_SAMPLES_PER_S = 1e9
MOST_TRAININGS = 16  # of one job that are told apart

_Json = Mapping[str, Any]
Member = tuple[_Json, _Json]
"""A process's summary, and the largest loader that it trains from."""


@dataclass(frozen=True, slots=True)
class Training:
    """Processes of one node that train together: ranks of one world, or side by side."""

    members: Sequence[Member]
    others: Sequence[Member] = ()  # smaller loaders of these processes, of the same training
    ranks_here: frozenset[Any] = frozenset()  # of its world, those without a loader included

    @property
    def here(self) -> int:
        """Processes that train at one time on this node."""
        if len(self.members) == 1:  # as in most records
            return 1
        walls = [wall_s(loader) for _, loader in self.members]
        longest = max(walls)
        return max(1, round(sum(walls) / longest)) if longest > 0 and isfinite(sum(walls)) else 1

    @property
    def ranks(self) -> int:
        """Processes that train at one time in the whole job."""
        return max(1, round(self.here * self._nodes()))

    @property
    def samples_per_s(self) -> float | None:
        """Samples/s of the whole job; None where the numbers cannot be."""
        read = [(s, [ld, *[o for of, o in self.others if of is s]]) for s, ld in self.members]
        samples = sum([total(loader, "samples") for _, loaders in read for loader in loaders])
        longest = max([seconds(summary, loaders) for summary, loaders in read])
        if not 0 < samples < MAX_SAMPLES_PER_S * longest:
            return None
        rate = samples / longest * self._nodes()
        return rate if rate <= MAX_SAMPLES_PER_S else None

    def of(self, members: Sequence[Member]) -> "Training":
        """The training by these of its members alone: ranks left out count as on other nodes."""
        out = {s.get("rank") for s, _ in self.members} - {s.get("rank") for s, _ in members}
        return Training(members, self.others, self.ranks_here - out)

    def _nodes(self) -> float:
        """All ranks of the world for each of those here: they go in step on every node."""
        world = _world(self.members[0][0])
        here = self.ranks_here | {s.get("rank") for s, _ in self.members if _world(s) == world}
        return max(1.0, world / len(here))


def largest_training(summaries: Sequence[_Json]) -> Training | None:
    """The training of a job with the most samples; None where its loaders delivered nothing."""
    return next(trainings(summaries), None)


def trainings(summaries: Sequence[_Json]) -> Iterator[Training]:
    """Trainings of a job, the one with the most samples first, at most MOST_TRAININGS."""
    by_process = [[(summary, strand) for strand in strands(summary)] for summary in summaries]
    stepped = any(read[0][1].stepped for read in by_process if read)
    left = [[strand for strand in read if strand[1].stepped == stepped] for read in by_process]
    left = [read if stepped else read[:1] for read in left if read]
    left.sort(key=lambda read: read[0][1][:2], reverse=True)
    for _ in range(MOST_TRAININGS):
        if not left:
            return
        first = left[0]
        beside = [process for process in left if _together(first[0][0], process[0][0])]
        left = [process for process in left if all(process is not other for other in beside)]
        for nth in range(min(MOST_TRAININGS, len(first))):
            read = [process[nth] for process in beside if nth < len(process)]
            yield _training(read, _ranks_beside(read[0][0], summaries))


def _ranks_beside(first: _Json, summaries: Sequence[_Json]) -> frozenset[Any]:
    """Ranks of the process's world on this node: one rank may read for all of them."""
    world = _world(first)
    if world < 2:
        return frozenset()
    same = (s for s in summaries if _world(s) == world and _together(first, s))
    return frozenset(s.get("rank") for s in same)


def _training(read: Sequence[tuple[_Json, Strand]], ranks_here: frozenset[Any]) -> Training:
    world = _world(read[0][0])
    ranks = [(s, strand.loaders[0]) for s, strand in read if _world(s) == world]
    share = share_of_each(ranks, world)
    shared = [
        _shared(summary, own, share if _world(summary) == world else 1.0)
        for summary, (_, _, own) in read
    ]
    members = [(summary, loaders[0]) for summary, loaders in shared]
    others = [(summary, loader) for summary, loaders in shared for loader in loaders[1:]]
    return Training(members, others, ranks_here)


def _shared(summary: _Json, own: Sequence[_Json], share: float) -> tuple[_Json, list[_Json]]:
    """The process and its training's loaders, all with their share, and still each other's."""
    if share == 1:
        return summary, [*own]
    every = [(loader, with_share(loader, share)) for loader in summary["loaders"]]
    found = {id(loader): shared for loader, shared in every}
    summary = {**summary, "loaders": [shared for _, shared in every]}
    return summary, [found[id(loader)] for loader in own]


def _together(one: _Json, other: _Json) -> bool:
    """True for a process and itself, and for two that trained at the same time."""
    if one is other:
        return True
    times = [s.get(name) for s in (one, other) for name in ("started_s", "ended_s")]
    if any(type(time) not in (int, float) for time in times):  # an older probe did not tell
        return one.get("rank") != other.get("rank")
    began, ended, other_began, other_ended = map(float, times)  # type: ignore[arg-type] # see above
    shorter = min(ended - began, other_ended - other_began)
    return min(ended, other_ended) - max(began, other_began) >= TOGETHER * shorter


def _world(summary: _Json) -> int:
    """Ranks of the process's world; 1 where its own word cannot be true."""
    size = summary.get("world_size")
    return size if type(size) is int and 0 < size <= MAX_RANKS else 1
