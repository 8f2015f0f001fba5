"""Fits how a site's trainings scale over GPUs, and promotes it if it predicts unseen trainings.

Each training is predicted from its smallest number of GPUs alone: once by the family without this
training, and once by the default prior. Whole trainings are held out, never single rows.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median

import numpy as np

from slurm_ext.model.scaling.artifact import FOLDER, load, serialize
from slurm_ext.model.scaling.family import Family
from slurm_ext.model.scaling.model import ScalingMeasurement, TrainingConfig, fit
from slurm_ext.model.scaling.prior import ScalingPrior
from slurm_ext.training.challenger import BETTER, Challenger, Export, Scores, TrainingVerdict
from slurm_ext.training.scaling.fit import without
from slurm_ext.training.scaling.interval_calibration import trained
from slurm_ext.training.scaling.rows import ScalingRow, by_pair

FEWEST = 4  # trainings: with fewer, one decides
PHYSICS = "its error {ours:.3f} is not below {theirs:.3f}, which physics alone has"
COMPARED = tuple(
    TrainingConfig(gpus=gpus, nodes=nodes, local_batch=batch)
    for gpus, nodes in ((1, 1), (4, 1), (4, 2), (32, 8))
    for batch in (8.0, 64.0, 1024.0)
)

Pairs = Mapping[tuple[str, str], Sequence[ScalingMeasurement]]


def challenge(rows: Sequence[ScalingRow], models: Path) -> TrainingVerdict:
    """Fit, score, and let the family serve from `models/scaling/current` if it predicts better.

    `runs` of the verdict are trainings; errors are medians of absolute logs. Raises ModelError if
    the family cannot be written, or does not read back as it is.
    """
    pairs = by_pair(rows)
    why = f"{len(pairs)} trainings over several numbers of GPUs are too few, {FEWEST} needed"
    verdict = TrainingVerdict(why=why, runs=len(pairs))
    if len({model for model, _ in pairs}) < FEWEST:
        return verdict
    return Challenger(
        kind="scaling",
        folder=models / FOLDER,
        fit=lambda: trained(rows),
        score=lambda family: _scores(family, pairs),
        baselines={"physics": PHYSICS},
        export=lambda family, _: Export(
            serialize(family), lambda folder: difference(family, load(folder))
        ),
        success="its error on trainings it had not seen is smaller than without it",
        metric="median_error",
        gain=BETTER,
    ).challenge(verdict)


def _scores(family: Family, pairs: Pairs) -> Scores:
    ours, physics = zip(*_errors(family, pairs), strict=True)
    return {
        "ours": {"median_error": median(ours)},
        "physics": {"median_error": median(physics)},
    }


def _errors(family: Family, pairs: Pairs) -> Iterator[tuple[float, float]]:
    """For each larger config of each training: the error with and without the family."""
    for (model, cluster), points in pairs.items():
        fewest = min(point.config.gpus for point in points)
        revealed = [point for point in points if point.config.gpus == fewest]
        rest = [point for point in points if point.config.gpus > fewest]
        prior = without(family, model=model).prior(model=model, cluster=cluster)
        yield from zip(_misses(revealed, rest, prior), _misses(revealed, rest, None), strict=True)


def _misses(
    revealed: Sequence[ScalingMeasurement],
    rest: Sequence[ScalingMeasurement],
    prior: ScalingPrior | None,
) -> list[float]:
    rates, _, _ = fit(revealed, prior).rates([point.config for point in rest])
    truth = np.array([point.samples_per_s for point in rest])
    return [float(miss) for miss in np.abs(np.log(rates / truth))]


def difference(first: Family, other: Family) -> float:
    """Largest difference of log rates and interval ends, for known and unknown trainings."""
    points = [ScalingMeasurement(config=COMPARED[0], samples_per_s=100.0)]
    off = 0.0
    for model in (first.models[0], "unseen"):
        for cluster in (first.clusters[0], "unseen"):
            ours, theirs = (
                fit(points, family.prior(model=model, cluster=cluster)).rates(COMPARED)
                for family in (first, other)
            )
            off = max(off, float(np.abs(np.log(ours) - np.log(theirs)).max()))
    return off
