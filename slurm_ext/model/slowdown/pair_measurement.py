"""Statistics of the runs of one job beside the same partners."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isfinite, log, sqrt

from slurm_ext.core.gpu_sharing import CorunMeasurement

RUN_LOG_SD = 0.05  # between two runs of one pair, where nothing was seen of it (Gavel TF: 0.014
# median, 0.076 in one of ten; README of the public tables)
MINUTE_LOG_SD = 0.15  # of one minute's measurement; falls with the root of the time
SURE = 3.0  # runs that the prior RUN_LOG_SD counts for
LEAST, MOST = 0.001, 10.0  # speeds beyond are broken measurements


@dataclass(frozen=True, slots=True, kw_only=True)
class PairStats:
    """Runs of one job beside the same partners on one device; logs of speeds."""

    runs: int
    seconds: float
    log_speed: float
    log_sd: float  # of `log_speed`
    spread: float  # of the next run around it: large where the runs contradict each other


PairKey = tuple[str, str, tuple[str, ...]]
"""Device, job, its partners in order."""


def is_usable(run: CorunMeasurement) -> bool:
    """True if a row can be a measurement: finite, positive, with partners, for some time."""
    return (
        bool(run.partners)
        and isfinite(run.speed)
        and LEAST <= run.speed <= MOST
        and isfinite(run.seconds)
        and run.seconds > 0
    )


def all_pair_stats(rows: Iterable[CorunMeasurement]) -> dict[PairKey, PairStats]:
    """The usable rows, by device, job and partners."""
    groups: dict[PairKey, list[CorunMeasurement]] = {}
    for run in filter(is_usable, rows):
        groups.setdefault(key(run.job, run.partners, run.device), []).append(run)
    return {name: pair_stats(runs) for name, runs in groups.items()}


def key(job: str, partners: Iterable[str], device: str) -> PairKey:
    """Key of a pair's statistics; the order of partners does not matter."""
    return device, job, tuple(sorted(partners))


def pair_stats(rows: Sequence[CorunMeasurement]) -> PairStats:
    """Mean weighted by how well each was measured, and a spread that no few runs can make small.

    Where they differ by more than their measurement explains, both widths grow (Birge's ratio);
    where by less, they shrink as the runs become many.
    """
    logs = [log(run.speed) for run in rows]
    variances = [RUN_LOG_SD**2 + MINUTE_LOG_SD**2 * 60.0 / run.seconds for run in rows]
    weights = [1.0 / variance for variance in variances]
    total = sum(weights)
    mean = sum(w * y for w, y in zip(weights, logs, strict=True)) / total
    chi2 = sum(w * (y - mean) ** 2 for w, y in zip(weights, logs, strict=True))
    ratio = (SURE + chi2) / (SURE + len(rows) - 1)
    return PairStats(
        runs=len(rows),
        seconds=sum(run.seconds for run in rows),
        log_speed=mean,
        log_sd=sqrt(ratio / total),
        spread=sqrt(ratio * len(rows) / total),
    )
