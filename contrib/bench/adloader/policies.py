"""Fixed policies of the live proof: cores and workers of each running job. Pure."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from contrib.bench.adloader.actuator import STARTING, Grant, Rule
from contrib.bench.adloader.curves import SHARES, WORKERS, Table
from contrib.bench.adloader.live import MOST_WORKERS, NODE_CPUS
from contrib.bench.allocator import baselines as rules

GRAIN = 4  # units of a core: what Synergy and the search divide
START_RATE = 200.0  # about what a core decodes
NOT_BELOW = 0.98  # of the even split: what the search must leave to everybody


@dataclass(frozen=True, slots=True)
class Machine:
    """Cores to divide, and the measured table of each kind of job."""

    cores: int
    measured: Mapping[str, Table]

    @property
    def tables(self) -> Mapping[str, Table]:
        """Measured tables; a job that still imports turns a core into START_RATE samples/s."""
        start = {(share, w): START_RATE * min(share, 1.0) for share in SHARES for w in WORKERS}
        return {**self.measured, STARTING: Table(start)}

    @property
    def units(self) -> int:
        """Of CPU."""
        return self.cores * GRAIN

    def best(self, kind: str, units: float) -> tuple[float, int]:
        """The highest rate with so many units, and its workers."""
        rate, workers = self.tables[kind].best(units / GRAIN)
        return rate, workers

    def grants(self, kinds: Sequence[str], division: Sequence[float]) -> tuple[Grant, ...]:
        """The division with the best workers for each part."""
        return tuple(
            Grant(units / GRAIN, self.best(kind, units)[1])
            for kind, units in zip(kinds, division, strict=True)
        )


def even(machine: Machine) -> Rule:
    """Cores, and as many workers as the node has CPUs, in equal parts."""
    return alike(lambda jobs: rules.even_split(jobs, machine.cores, NODE_CPUS))


def pytorch(machine: Machine) -> Rule:
    """Equal cores; the workers that PyTorch's warning suggests."""
    return alike(lambda jobs: rules.pytorch(jobs, machine.cores, machine.cores))


def lightning(machine: Machine) -> Rule:
    """Equal cores; the workers that Lightning's warning suggests."""
    return alike(lambda jobs: rules.lightning(jobs, machine.cores, machine.cores))


def submitit(machine: Machine) -> Rule:
    """Equal cores; ten workers as in the launchers written around submitit."""
    return alike(lambda jobs: rules.submitit(jobs, machine.cores))


def alike(shares: Callable[[int], Sequence[tuple[float, int]]]) -> Rule:
    """The rule that looks only at how many jobs run."""

    def rule(kinds: tuple[str, ...]) -> tuple[Grant, ...]:
        return tuple(Grant(cores, min(n, MOST_WORKERS)) for cores, n in shares(len(kinds)))

    return rule


def synergy(machine: Machine) -> Rule:
    """Synergy's tune on the measured tables, each job with the best workers for its cores."""

    def rule(kinds: tuple[str, ...]) -> tuple[Grant, ...]:
        curves = [
            {n: machine.best(kind, n)[0] for n in range(1, machine.units + 1)} for kind in kinds
        ]
        units = rules.synergy_tune(curves, machine.units, machine.units // len(kinds))
        return machine.grants(kinds, units)

    return rule


def best_samples(machine: Machine) -> Rule:
    """The division with most samples/s in all."""
    return exhaustive(machine, lambda rates, _: sum(rates))


def best_ratios(machine: Machine) -> Rule:
    """The division with the largest sum of rates over those of the even split."""
    return exhaustive(machine, lambda rates, base: sum(map(_over, rates, base)))


def exhaustive(machine: Machine, worth: Callable[[list[float], list[float]], float]) -> Rule:
    """The best of all divisions and all worker counts of the grid, for each set of running jobs.

    Nobody is below NOT_BELOW of what the tables say of the even split.
    """

    def rule(kinds: tuple[str, ...]) -> tuple[Grant, ...]:
        parts = rules.even_split(len(kinds), machine.cores, NODE_CPUS)
        base = [machine.tables[kind].at(*part) for kind, part in zip(kinds, parts, strict=True)]

        def value(division: tuple[int, ...]) -> tuple[bool, float, float]:
            rates = [machine.best(kind, n)[0] for kind, n in zip(kinds, division, strict=True)]
            least = min(map(_over, rates, base))
            return least >= NOT_BELOW, round(worth(rates, base), 1), least

        best = max(divisions(machine.units, len(kinds)), key=value)
        return machine.grants(kinds, best)

    return rule


def _over(rate: float, base: float) -> float:
    return rate / base


def divisions(units: int, parts: int) -> Iterator[tuple[int, ...]]:
    """Every way to deal `units` to `parts` jobs, each at least one."""
    if parts == 1:
        yield (units,)
        return
    for first in range(1, units - parts + 2):
        for rest in divisions(units - first, parts - 1):
            yield (first, *rest)


POLICIES: Mapping[str, Callable[[Machine], Rule]] = {
    "even": even,
    "pytorch": pytorch,
    "lightning": lightning,
    "submitit": submitit,
    "synergy": synergy,
    "best_samples": best_samples,
    "best_ratios": best_ratios,
}
