"""Trainings of one job: processes that train together, and the rate of all of them as a whole.

Pure. The rate that people see and that predictions are held against is the whole job's: samples of
all processes that train together, over their training's wall time. That time is of the whole run:
first epoch, every pass over the training data, and every start of its workers. Validations and
what else lies between two passes are not in it. The steady rate beside it (loader_run.py) is one
process's in its later epochs, once its workers run: the model's unit. `outcomes` (store/schema.py)
and advisor/evidence/whole_run.py compare one process's share of the whole rate.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, NamedTuple

TOGETHER = 0.5  # of the shorter life: processes that overlap by less came one after the other
MAX_RANKS = 1_000_000  # a larger world_size is not believed
MAX_SAMPLES_PER_S = 1e9
MOST_TRAININGS = 16  # of one job that are told apart

_Json = Mapping[str, Any]
Member = tuple[_Json, _Json]
"""A process's summary, and the loader that it trains from."""


@dataclass(frozen=True, slots=True)
class Training:
    """Processes of one node that train together: ranks of one world, or side by side."""

    members: Sequence[Member]

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
        samples = sum([total(loader, "samples") for _, loader in self.members])
        longest = max([wall_s(loader) for _, loader in self.members])
        if not 0 < samples < MAX_SAMPLES_PER_S * longest:
            return None
        rate = samples / longest * self._nodes()
        return rate if rate <= MAX_SAMPLES_PER_S else None

    def _nodes(self) -> float:
        """All ranks of the world for each of those here: they go in step on every node."""
        world = _world(self.members[0][0])
        here = {s.get("rank") for s, _ in self.members if _world(s) == world}
        return max(1.0, world / len(here))


class _Weighed(NamedTuple):
    """A member with what it is ranked by, summed up once."""

    stepped: bool
    samples: float
    member: Member


def largest_training(summaries: Sequence[_Json]) -> Training | None:
    """The training of a job with the most samples; None where its loaders delivered nothing."""
    return next(trainings(summaries), None)


def trainings(summaries: Sequence[_Json]) -> Iterator[Training]:
    """Trainings of a job, the one with the most samples first, at most MOST_TRAININGS."""
    found = [members for summary in summaries if (members := _members(summary))]
    stepped = any(members[0].stepped for members in found)
    left = [[one for one in members if one.stepped == stepped] for members in found]
    left = [members if stepped else members[:1] for members in left if members]
    left.sort(key=lambda members: members[0][:2], reverse=True)
    for _ in range(MOST_TRAININGS):
        if not left:
            return
        first = left[0]
        beside = [one for one in left if _together(first[0].member[0], one[0].member[0])]
        left = [one for one in left if all(one is not other for other in beside)]
        for nth in range(min(MOST_TRAININGS, len(first))):
            yield Training([one[nth].member for one in beside if nth < len(one)])


def wall_s(loader: _Json) -> float:
    """Wall time of a loader's passes, with the starts of its workers."""
    return total(loader, "wall_s") + (loader.get("startup_s") or 0.0)


def training_phases(loader: _Json) -> Sequence[_Json]:
    """A loader's phases with steps, where there is any such; else all of them."""
    phases: Sequence[_Json] = loader["phases"]
    return [phase for phase in phases if phase.get("steps")] or phases


def total(loader: _Json, name: str) -> float:
    """Sum of a figure over a loader's phases: those with steps, where there is any such."""
    return float(sum([phase.get(name) or 0 for phase in training_phases(loader)]))


def _members(summary: _Json) -> list[_Weighed]:
    """The loaders of a process that delivered anything, those that steps used and larger first.

    Loaders that it reads at once are one training: its largest stands for them.
    """
    loaders = summary.get("loaders") or ()
    weighed = [
        _Weighed(total(one, "steps") > 0, samples, (summary, one))
        for one in loaders
        if (samples := total(one, "samples")) > 0
    ]
    weighed.sort(key=lambda one: one[:2], reverse=True)
    training = [one.member[1] for one in weighed if one.stepped]
    return weighed[:1] if len(training) > 1 and at_once(summary, training) else weighed


AT_ONCE = 1.2  # of the process's time: loaders that add up to more ran together


def at_once(summary: _Json, loaders: Sequence[_Json]) -> bool:
    """Return True if these loaders of a process cannot have run one after the other."""
    lived_s = (summary.get("ended_s") or 0.0) - (summary.get("started_s") or 0.0)
    return 0 < AT_ONCE * lived_s < sum([total(loader, "wall_s") for loader in loaders])


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
