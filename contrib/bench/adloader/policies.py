"""Fixed policies of the live proof: cores and workers of each running job. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from contrib.bench.adloader.actuator import STARTING, Grant, Rule
from contrib.bench.adloader.curves import SHARES, WORKERS, Table
from contrib.bench.adloader.training import KINDS
from contrib.bench.adloader.workload import slots

GRAIN = 4  # units of a core: what the search divides
START_RATE = 200.0  # about what a core decodes
NOT_BELOW = 0.98  # of Slurm as it is: what the search must leave to everybody


@dataclass(frozen=True, slots=True)
class Machine:
    """Cores to divide, and the measured table of each kind of job."""

    cores: int
    measured: Mapping[str, Table]

    @property
    def units(self) -> int:
        """Of CPU."""
        return self.cores * GRAIN

    def table(self, kind: str) -> Table:
        """The measured one; a job that still imports turns a core into START_RATE samples/s."""
        if kind != STARTING:
            return self.measured[kind]
        start = {(share, w): START_RATE * min(share, 1.0) for share in SHARES for w in WORKERS}
        return Table(start)

    def as_written(self, kind: str) -> float:
        """Rate of a job under Slurm as it is: cores of its own, the workers of its script."""
        workers = KINDS[kind].user_workers if kind in KINDS else 1
        return self.table(kind).at(self.cores / slots(self.cores), workers)

    def best_points(self, kind: str) -> list[tuple[float, int]]:
        """The highest rate, and its workers, with each number of units from 1 on."""
        table = self.table(kind)
        return [table.best(units / GRAIN) for units in range(1, self.units + 1)]


def even(cores: int) -> Rule:
    """As many workers as there are cores, in equal parts; the cores are everybody's."""

    def rule(kinds: tuple[str, ...]) -> tuple[Grant, ...]:
        return (Grant(None, max(1, cores // len(kinds))),) * len(kinds)

    return rule


def best_fixed(machine: Machine) -> Rule:
    """The division of all, with all worker counts of the grid, that has most samples/s.

    One for each set of running jobs. Nobody is below NOT_BELOW of what the tables say of Slurm as
    it is, if there is such a division.
    """

    @cache
    def rule(kinds: tuple[str, ...]) -> tuple[Grant, ...]:
        points = [machine.best_points(kind) for kind in kinds]
        base = [machine.as_written(kind) for kind in kinds]

        def value(division: tuple[int, ...]) -> tuple[bool, float, float]:
            rates = [each[n - 1][0] for each, n in zip(points, division, strict=True)]
            least = min(rate / own for rate, own in zip(rates, base, strict=True))
            return least >= NOT_BELOW, round(sum(rates), 1), least

        best = max(divisions(machine.units, len(kinds)), key=value)
        return _grants(points, best)

    return rule


def _grants(
    points: Sequence[Sequence[tuple[float, int]]], division: Sequence[int]
) -> tuple[Grant, ...]:
    return tuple(
        Grant(units / GRAIN, each[units - 1][1])
        for each, units in zip(points, division, strict=True)
    )


def divisions(units: int, parts: int) -> Iterator[tuple[int, ...]]:
    """Every way to deal `units` to `parts` jobs, each at least one."""
    if parts == 1:
        yield (units,)
        return
    for first in range(1, units - parts + 2):
        for rest in divisions(units - first, parts - 1):
            yield (first, *rest)
