"""Claims of jobs on limits; jobs that are alike there share one."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from slurm_ext.simulate.limits.held import Held, HeldLimits, LimitedJob
from slurm_ext.simulate.limits.limit import (
    GROUP_MINUTES,
    GROUP_WALL,
    JOB_MINUTES,
    JOBS,
    METERED,
    MINUTES,
    RUNNING_MINUTES,
    SUBMITTED,
    SUMS,
    WALL,
    written,
)
from slurm_ext.simulate.limits.meters import Metering

WAITS = "would wait for ever"
REFUSED = "refused"
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
        every = list(self._held.of(job))
        counts = {JOBS: 1, SUBMITTED: 1, MINUTES: 1, **dict(job.counts)}
        sums = [one for one in every if one.limit[0] in SUMS and one.limit[0] not in METERED]
        minutes = [one for one in every if one.limit[0] in METERED]
        tests = [
            (
                one,
                LimitTest(
                    counter=self._counter(one),
                    adds=one.adds(counts),
                    most=int(one.value),
                    why=why(one),
                ),
            )
            for one in sums
            if one.tests
        ]
        adds = [(one, (self._counter(one), one.adds(counts))) for one in sums]
        most_s, too_long = self._longest(every, counts)
        return Claim(
            starts=tuple(test for one, test in tests if one.limit[1] != SUBMITTED),
            submits=tuple(test for one, test in tests if one.limit[1] == SUBMITTED),
            running=tuple(add for one, add in adds if one.limit[1] != SUBMITTED),
            submitted=tuple(add for one, add in adds if one.limit[1] == SUBMITTED),
            minutes=tuple(self._minutes(one, counts, job) for one in minutes if one.tests),
            metered=tuple((self._meter(one), one.adds(counts)) for one in minutes),
            usage_factor=self._held.usage_factor(job),
            never=_never(every, counts),
            most_s=most_s,
            too_long=too_long,
        )

    def _minutes(self, one: Held, counts: Mapping[str, int], job: LimitedJob) -> MinutesTest:
        column, safe = one.limit[0], self._metering.safe
        asks = column == RUNNING_MINUTES or (column == GROUP_MINUTES and safe)
        return MinutesTest(
            meter=self._meter(one),
            most_s=one.value * 60,
            asks_s=one.adds(counts) * job.limit_s if asks else 0.0,
            why=f"{ENDED}: {one.label}",
            past=column != RUNNING_MINUTES,
            ends=column == GROUP_WALL or (column == GROUP_MINUTES and not safe),
        )

    def _longest(self, every: Sequence[Held], counts: Mapping[str, int]) -> tuple[float, str]:
        """The longest time limit, s, with which such a job may start; and whose word that is."""
        found = [(inf, "")]
        for one in every:
            needs, column = one.adds(counts), one.limit[0]
            if one.tests and one.limit == WALL:
                found.append((one.value, why(one)))
            elif one.tests and needs and (column == JOB_MINUTES or self._is_whole(one)):
                found.append((one.value * 60 / needs, why(one)))
        return min(found)

    def _is_whole(self, one: Held) -> bool:
        """True for minutes that a job may not ask for even if nobody had used any."""
        if one.limit[0] == RUNNING_MINUTES:
            return True
        return one.limit[0] == GROUP_MINUTES and (self._metering.safe or one.refuses)

    def _counter(self, one: Held) -> int:
        """The number of a sum: a limit's, and whose jobs it is of."""
        return self._counters.setdefault(one.key, len(self._counters))

    def _meter(self, one: Held) -> int:
        if one.key not in self._meters:
            self.half_lives_s.append(self._metering.half_life_s if one.decays else 0.0)
        return self._meters.setdefault(one.key, len(self._meters))


def _never(every: Sequence[Held], counts: Mapping[str, int]) -> str:
    """The limit that a job is above even if it is alone; empty: none."""
    return next(_above(every, counts), "")


def _above(every: Sequence[Held], counts: Mapping[str, int]) -> Iterator[str]:
    for one in every:
        column, _ = one.limit
        if not one.tests or one.limit == WALL or column == JOB_MINUTES:
            continue
        needs = one.adds(counts)
        if column in METERED:
            if not one.value:
                yield why(one)
        elif needs < one.value if column == "MinTRES" else needs > one.value:
            yield why(one)


def why(one: Held) -> str:
    """A limit in words, and what becomes of a job that is above it."""
    fate = REFUSED if one.refuses or one.limit[1] == SUBMITTED else WAITS
    return f"{fate}: {written(one.limit, one.value)} of {one.owner}"
