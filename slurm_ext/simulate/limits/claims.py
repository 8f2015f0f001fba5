"""Claims of jobs on the limits of their QOS; jobs that are alike there share one."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

from slurm_ext.simulate.limits.qos import (
    JOBS,
    OVER_PARTITION,
    SUBMITTED,
    SUMS,
    WALL,
    Limit,
    Qos,
    QosTable,
    in_force,
    written,
)

WAITS = "would wait for ever"


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitedJob:
    """A job, as far as limits look at it; `counts`: by the names of TRES."""

    qos: str
    partition: str
    user: str
    account: str
    counts: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitTest:
    """A sum that may not come above a limit: its counter, what the job adds, the most."""

    counter: int
    adds: int
    most: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """`never`: why no such job ever starts (empty: it may); `most_s`: of its time limit."""

    starts: tuple[LimitTest, ...] = ()
    submits: tuple[LimitTest, ...] = ()
    running: tuple[tuple[int, int], ...] = ()  # (counter, what it adds while it runs)
    submitted: tuple[tuple[int, int], ...] = ()  # the same, from its submission to its end
    never: str = ""
    most_s: float = inf
    too_long: str = ""


class ClaimBook:
    """Claims of one site's jobs, and the numbers of their counters."""

    def __init__(self, table: QosTable, of_partition: Mapping[str, str]) -> None:
        """`of_partition`: the QOS of partitions that have one."""
        self._table, self._of_partition = table, of_partition
        self._counters: dict[tuple[str, str, str, str], int] = {}

    def __len__(self) -> int:
        """Counters so far."""
        return len(self._counters)

    def claim(self, job: LimitedJob) -> Claim:
        """Return a job's claim. Raises KeyError where the table lacks its QOS."""
        both = self._qos_of(job)
        force, counts = in_force(both), {JOBS: 1, SUBMITTED: 1, **dict(job.counts)}
        tests = {
            limit: LimitTest(
                counter=self._counter(limit, one, job),
                adds=counts.get(limit[1], 0),
                most=one.sums[limit],
                why=_why(limit, one),
            )
            for limit, one in force.items()
            if limit[0] in SUMS
        }
        adds = [
            (limit[1], self._counter(limit, one, job), counts.get(limit[1], 0))
            for one in both
            for limit in one.sums
        ]
        wall = force.get(WALL)
        return Claim(
            starts=tuple(test for limit, test in tests.items() if limit[1] != SUBMITTED),
            submits=tuple(test for limit, test in tests.items() if limit[1] == SUBMITTED),
            running=tuple((counter, add) for what, counter, add in adds if what != SUBMITTED),
            submitted=tuple((counter, add) for what, counter, add in adds if what == SUBMITTED),
            never=_never(force, counts),
            most_s=wall.each[WALL] if wall else inf,
            too_long=_why(WALL, wall) if wall else "",
        )

    def _qos_of(self, job: LimitedJob) -> tuple[Qos, ...]:
        """The QOS whose limits it has, the one whose word counts first."""
        names = [self._of_partition.get(job.partition, ""), job.qos]
        both = [self._table.qos[name] for name in dict.fromkeys(names) if name]
        if OVER_PARTITION in both[-1].flags if both else False:
            both.reverse()
        return tuple(both)

    def _counter(self, limit: Limit, qos: Qos, job: LimitedJob) -> int:
        """The number of a sum: a limit's, and whose jobs it is of."""
        who = job.user if limit[0].endswith("PU") else ""
        who = job.account if limit[0].endswith("PA") else who
        return self._counters.setdefault((qos.name, *limit, who), len(self._counters))


def _never(force: Mapping[Limit, Qos], counts: Mapping[str, int]) -> str:
    """The limit that a job is above even if it is alone; empty: none."""
    for limit, one in force.items():
        column, counted = limit
        value = one.sums.get(limit, one.each.get(limit, inf))
        if limit == WALL:
            continue
        needs = counts.get(counted, 0)
        if needs < value if column == "MinTRES" else needs > value:
            return _why(limit, one)
    return ""


def _why(limit: Limit, qos: Qos) -> str:
    """A limit in words, and what becomes of a job that is above it."""
    value = qos.sums.get(limit, qos.each.get(limit, inf))
    fate = "refused" if qos.refuses() or limit[1] == SUBMITTED else WAITS
    return f"{fate}: {written(limit, value)} of QOS {qos.name}"
