"""Statistics of a cluster's job durations, by keys from the narrowest to all jobs.

Fed with submissions and ends in the order of time, it gives the features of a submission as they
were known at that moment (QSSF's back-off over names and users: Helios, SC'21, with as many levels
as the plan has). `duration/model.py` predicts from them.
"""

from collections import OrderedDict
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from math import log, nan

from slurm_ext.model.duration.key_statistics import (
    NOTHING,
    STATISTICS,
    KeyStatistics,
    RememberedRun,
)

DAY_S = 86400
SURE_AFTER = 2.0  # ended runs at which a level's mean weighs as much as all wider ones


@dataclass(frozen=True, slots=True)
class JobFeatures:
    """A job at its submission: time in s since the epoch, names, numbers (None: unknown)."""

    submit_s: float
    names: Mapping[str, str]
    numbers: Mapping[str, float | None]


@dataclass(frozen=True, slots=True)
class FeaturePlan:
    """Names that make a key, narrowest level first, and numbers that are features."""

    levels: tuple[tuple[str, ...], ...]
    numbers: tuple[str, ...]

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the values of `DurationState.row`, in order."""
        names = [
            f"{'+'.join(level) or 'all'}:{name}" for level in self.levels for name in STATISTICS
        ]
        return (*names, *self.numbers, "hour", "weekday", "known_level", "history")


@dataclass(slots=True)
class DurationState:
    """Statistics of all keys. Deterministic: the same events give the same features.

    Of each level the `most_keys` last used are kept, about 2 kB each.
    """

    plan: FeaturePlan
    most_keys: int = 1 << 60
    _memories: list[OrderedDict[Hashable, KeyStatistics]] = field(init=False)
    _jobs: dict[Hashable, tuple[RememberedRun, list[KeyStatistics]]] = field(
        init=False, default_factory=dict
    )

    def __post_init__(self) -> None:
        """Start without keys on any level."""
        self._memories = [OrderedDict() for _ in self.plan.levels]

    def row(self, job_features: JobFeatures) -> list[float]:
        """Features of a job that is submitted now; NaN where unknown."""
        now_s = job_features.submit_s
        rows: list[tuple[float, ...]] = []
        for level, memories in zip(self.plan.levels, self._memories, strict=True):
            memory = memories.get(_key(level, job_features))
            rows.append(NOTHING if memory is None else memory.row(now_s))
        first = next((at for at, row in enumerate(rows) if row[0] > 0), len(rows))
        numbers = [job_features.numbers.get(name) for name in self.plan.numbers]
        return [
            *(value for row in rows for value in row),
            *(nan if number is None else number for number in numbers),
            now_s % DAY_S // 3600,
            now_s // DAY_S % 7,
            first,
            backed_off(rows),
        ]

    def submitted(self, job: Hashable, job_features: JobFeatures) -> None:
        """Add a submitted job; one that is there already stays as it is."""
        if job in self._jobs:
            return
        run = RememberedRun(job_features.submit_s)
        levels = zip(self.plan.levels, self._memories, strict=True)
        memories = [self._memory(memory, _key(level, job_features)) for level, memory in levels]
        for memory in memories:
            memory.submitted(job, run)
        self._jobs[job] = run, memories

    def ended(self, job: Hashable, end_s: float, duration_s: float | None) -> None:
        """Remove a job that ended (duration None: unknown). Unknown jobs are ignored."""
        run, memories = self._jobs.pop(job, (None, []))
        log_s = None if duration_s is None else log(max(1.0, duration_s))
        for memory in memories:
            memory.gone(job, end_s, log_s)
        if run is not None:
            run.log_s = log_s

    def lived(self, job_features: JobFeatures, end_s: float, duration_s: float | None) -> None:
        """Add a job that ended and was not seen before, as every job of history."""
        job = object()
        self.submitted(job, job_features)
        self.ended(job, end_s, duration_s)

    def _memory(
        self, memories: OrderedDict[Hashable, KeyStatistics], key: Hashable
    ) -> KeyStatistics:
        memory = memories.get(key)
        if memory is None:
            memory = memories[key] = KeyStatistics()
            if len(memories) > self.most_keys:
                memories.popitem(last=False)
        else:
            memories.move_to_end(key)
        return memory


def backed_off(rows: list[tuple[float, ...]]) -> float:
    """Mean log duration, each level shrunk to the next wider one by how many runs it has."""
    from math import expm1

    at = STATISTICS.index("middling")
    mean = nan
    for row in reversed(rows):
        if row[0] > 0:
            n = min(expm1(row[0]), 10.0)
            mean = row[at] if mean != mean else (n * row[at] + SURE_AFTER * mean) / (n + SURE_AFTER)
    return mean


def _key(level: tuple[str, ...], job_features: JobFeatures) -> Hashable:
    return tuple(job_features.names.get(name, "") for name in level)
