"""The fastest shape within a job's limits, and the smallest one that comes near it. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain

from slurm_ext.core.records import Prediction, Shape, ShapeLimits
from slurm_ext.policy.loader import core_counts, most_workers, worker_counts

NEAR = 0.95  # of the maximum: more than the knee buys little
NO_BETTER = 1.001
FLAT = 3  # steps up without a gain before a climb ends


@dataclass(frozen=True, slots=True, kw_only=True)
class Peak:
    """Maximum and knee with their intervals; of equal shapes the smallest (cores, then workers)."""

    maximum: Prediction
    knee: Prediction


def peak(
    predict: Callable[[Shape], Prediction],
    limits: ShapeLimits,
    *,
    worker_rss_bytes: int | None = None,
    own_workers: int | None = None,
    own_cpus: int | None = None,
) -> Peak:
    """Return the maximum throughput within `limits`, and the first shape at NEAR of it.

    `own_workers`: those of the script, where no others can be given; `own_cpus`: the job's, where
    it has all cores of its node for any number.
    """
    workers: Sequence[int] = worker_counts(most_workers(limits, worker_rss_bytes))
    if own_workers is not None:
        workers = (own_workers,)
    cpus = core_counts(1, limits, "any") or (1,) if own_cpus is None else (own_cpus,)
    rows = [_climb(predict, cores, workers) for cores in cpus]
    best = max(chain.from_iterable(rows), key=lambda point: point.samples_per_s)
    return Peak(maximum=_first(rows, best, 1 / NO_BETTER), knee=_first(rows, best, NEAR))


def _climb(
    predict: Callable[[Shape], Prediction], cores: int, workers: Sequence[int]
) -> list[Prediction]:
    """Predictions at `cores`, up to the count from which more workers bring nothing."""
    row: list[Prediction] = []
    best, flat = 0.0, 0
    for count in workers:
        row.append(predict(Shape(cpus_per_task=cores, num_workers=count)))
        flat = 0 if row[-1].samples_per_s > NO_BETTER * best else flat + 1
        best = max(best, row[-1].samples_per_s)
        if flat >= FLAT:
            break
    return row


def _first(rows: list[list[Prediction]], best: Prediction, share: float) -> Prediction:
    return next(
        point
        for point in chain.from_iterable(rows)
        if point.samples_per_s >= share * best.samples_per_s
    )
