"""Claims of jobs on limits; jobs that are alike there share one."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

from slurm_ext.simulate.limits.held import Held, HeldLimits, LimitedJob
from slurm_ext.simulate.limits.limit import (
    GROUP_MINUTES,
    GROUP_WALL,
    JOBS,
    METERED,
    MINUTES,
    RUNNING_MINUTES,
    SUBMITTED,
    SUMS,
)
from slurm_ext.simulate.limits.meters import Metering
from slurm_ext.simulate.limits.never import longest, never, why

ENDED = "ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitTest:
    """A sum that may not come above a limit: its counter, what the job adds, the most."""

    counter: int
    adds: int
    most: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MinutesTest:
    """Minutes that are not used up: `asks_s` of them for a job that may use its time limit.

    `past`: those that jobs have had count; `ends`: a running job is ended once they are used up.
    """

    meter: int
    most_s: float
    asks_s: float
    why: str
    past: bool
    ends: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """`never`: why no such job ever starts (empty: it may); `most_s`: of its time limit."""

    starts: tuple[LimitTest, ...] = ()
    submits: tuple[LimitTest, ...] = ()
    running: tuple[tuple[int, int], ...] = ()  # (counter, what it adds while it runs)
    submitted: tuple[tuple[int, int], ...] = ()  # the same, from its submission to its end
    minutes: tuple[MinutesTest, ...] = ()
    metered: tuple[tuple[int, int], ...] = ()  # (meter, what it adds while it runs)
    usage_factor: float = 1.0  # of the minutes that it uses
    never: str = ""
    most_s: float = inf
    too_long: str = ""


class ClaimBook:
    """Claims of one site's jobs, and the numbers of their counters and meters."""

    def __init__(self, held: HeldLimits, metering: Metering) -> None:
        self._held, self._metering = held, metering
        self._counters: dict[tuple[str, ...], int] = {}
        self._meters: dict[tuple[str, ...], int] = {}
        self.half_lives_s: list[float] = []  # of the meters

    def __len__(self) -> int:
        """Counters so far."""
        return len(self._counters)

    def claim(self, job: LimitedJob) -> Claim:
        """Return a job's claim. Raises KeyError where the site has no such QOS."""
        limits = list(self._held.of(job))
        counts = {JOBS: 1, SUBMITTED: 1, MINUTES: 1, **dict(job.counts)}
        sums = [
            limit for limit in limits if limit.limit[0] in SUMS and limit.limit[0] not in METERED
        ]
        minutes = [limit for limit in limits if limit.limit[0] in METERED]
        tests = [
            (
                limit,
                LimitTest(
                    counter=self._counter(limit),
                    adds=limit.adds(counts),
                    most=int(limit.value),
                    why=why(limit),
                ),
            )
            for limit in sums
            if limit.tests
        ]
        adds = [(limit, (self._counter(limit), limit.adds(counts))) for limit in sums]
        factor, safe = self._held.asked_factor(job), self._metering.safe
        most_s, too_long = longest(limits, counts, factor, safe=safe)
        return Claim(
            starts=tuple(test for limit, test in tests if limit.limit[1] != SUBMITTED),
            submits=tuple(test for limit, test in tests if limit.limit[1] == SUBMITTED),
            running=tuple(add for limit, add in adds if limit.limit[1] != SUBMITTED),
            submitted=tuple(add for limit, add in adds if limit.limit[1] == SUBMITTED),
            minutes=tuple(self._minutes(limit, counts, job) for limit in minutes if limit.tests),
            metered=tuple((self._meter(limit), limit.adds(counts)) for limit in minutes),
            usage_factor=self._held.usage_factor(job),
            never=never(limits, counts),
            most_s=most_s,
            too_long=too_long,
        )

    def _minutes(self, limit: Held, counts: Mapping[str, int], job: LimitedJob) -> MinutesTest:
        column, safe = limit.limit[0], self._metering.safe
        asks = column == RUNNING_MINUTES or (column == GROUP_MINUTES and safe)
        return MinutesTest(
            meter=self._meter(limit),
            most_s=limit.value * 60,
            asks_s=limit.adds(counts) * job.limit_s * self._held.asked_factor(job) if asks else 0.0,
            why=f"{ENDED}: {limit.label}",
            past=column != RUNNING_MINUTES,
            ends=column == GROUP_WALL or (column == GROUP_MINUTES and not safe),
        )

    def _counter(self, limit: Held) -> int:
        """The number of a sum: a limit's, and whose jobs it is of."""
        return self._counters.setdefault(limit.key, len(self._counters))

    def _meter(self, limit: Held) -> int:
        if limit.key not in self._meters:
            self.half_lives_s.append(self._metering.half_life_s if limit.decays else 0.0)
        return self._meters.setdefault(limit.key, len(self._meters))
