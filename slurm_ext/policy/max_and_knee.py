"""The most that a job can make of its limits, and the least that comes near it. Pure."""

from collections.abc import Callable
from dataclasses import dataclass

from slurm_ext.core.records import Prediction, Shape, ShapeLimits
from slurm_ext.policy.grid import core_counts, most_workers, worker_counts

NEAR = 0.95  # of the maximum: more than the knee buys little
NO_BETTER = 1.001
FLAT = 3  # steps up without a gain before a climb ends


@dataclass(frozen=True, slots=True, kw_only=True)
class Peak:
    """Both with their intervals; the smallest shapes that are as good (cores, then workers)."""

    maximum: Prediction
    knee: Prediction


def peak(
    predict: Callable[[Shape], Prediction],
    limits: ShapeLimits,
    *,
    worker_rss_bytes: int | None = None,
) -> Peak:
    """Maximum throughput over the shapes within `limits`, and the first one at NEAR of it."""
    workers = worker_counts(most_workers(limits, worker_rss_bytes))
    told = [_climb(predict, cores, workers) for cores in core_counts(1, limits, "any") or [1]]
    best = max((one for row in told for one in row), key=lambda one: one.samples_per_s)
    return Peak(maximum=_first(told, best, 1 / NO_BETTER), knee=_first(told, best, NEAR))


def _climb(
    predict: Callable[[Shape], Prediction], cores: int, workers: list[int]
) -> list[Prediction]:
    """Predictions at `cores`, up to where more workers bring nothing."""
    row: list[Prediction] = []
    best, flat = 0.0, 0
    for count in workers:
        row.append(predict(Shape(cpus_per_task=cores, num_workers=count)))
        flat = 0 if row[-1].samples_per_s > NO_BETTER * best else flat + 1
        best = max(best, row[-1].samples_per_s)
        if flat >= FLAT:
            break
    return row


def _first(told: list[list[Prediction]], best: Prediction, share: float) -> Prediction:
    return next(
        one for row in told for one in row if one.samples_per_s >= share * best.samples_per_s
    )
