"""Whether what a site's trainings taught about growing with GPUs foretells those it has not seen.

Each training is foretold from its smallest number of GPUs alone, once by the family without this
training and once by physics alone (no family): by unseen trainings, never by row.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np

from slurm_ext.model.scaling.artifact import FOLDER, serialize
from slurm_ext.model.scaling.family import Family
from slurm_ext.model.scaling.model import ScalingMeasurement, fit
from slurm_ext.model.scaling.prior import ScalingPrior
from slurm_ext.training.promotion import BETTER, promote
from slurm_ext.training.scaling.export import check
from slurm_ext.training.scaling.fit import without
from slurm_ext.training.scaling.interval_calibration import trained
from slurm_ext.training.scaling.rows import ScalingRow, by_pair

FEWEST = 4  # trainings: with fewer, one decides


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingReport:
    """What came of it; errors are medians of absolute logs."""

    promoted: bool
    why: str
    trainings: int
    model: str | None = None
    error: float | None = None
    error_without: float | None = None  # of physics alone


def challenge(rows: Sequence[ScalingRow], models: Path) -> ScalingReport:
    """Learn from `rows`; serve it from `models/scaling/current` where it foretells better.

    Raises ModelError where it cannot be written, or does not read back as it is.
    """
    pairs = by_pair(rows)
    if len({model for model, _ in pairs}) < FEWEST:
        why = f"{len(pairs)} trainings over several numbers of GPUs are too few, {FEWEST} needed"
        return ScalingReport(promoted=False, why=why, trainings=len(pairs))
    family = trained(rows)
    ours, alone = (median(each) for each in zip(*_errors(family, pairs), strict=True))
    better = ours < BETTER * alone
    return ScalingReport(
        promoted=better,
        why="its error on trainings it had not seen is smaller than without it"
        if better
        else f"its error {ours:.3f} is not below {alone:.3f}, which physics alone has",
        trainings=len(pairs),
        model=_serve(family, models / FOLDER) if better else None,
        error=ours,
        error_without=alone,
    )


def _errors(
    family: Family, pairs: dict[tuple[str, str], list[ScalingMeasurement]]
) -> Iterator[tuple[float, float]]:
    """For each larger config of each training: the error with and without the family."""
    for (model, cluster), points in pairs.items():
        fewest = min(one.config.gpus for one in points)
        seen = [one for one in points if one.config.gpus == fewest]
        rest = [one for one in points if one.config.gpus > fewest]
        prior = without(family, model=model).prior(model=model, cluster=cluster)
        yield from zip(_off(seen, rest, prior), _off(seen, rest, None), strict=True)


def _off(
    seen: Sequence[ScalingMeasurement],
    rest: Sequence[ScalingMeasurement],
    prior: ScalingPrior | None,
) -> list[float]:
    rates, _, _ = fit(seen, prior).rates([one.config for one in rest])
    truth = np.array([one.samples_per_s for one in rest])
    return [float(off) for off in np.abs(np.log(rates / truth))]


def _serve(family: Family, models: Path) -> str:
    return promote(models, "scaling", serialize(family), lambda folder: check(family, folder))
