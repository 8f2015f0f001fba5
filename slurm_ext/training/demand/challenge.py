"""Fits the demand of each pool that the energy loop recorded, and promotes it over persistence.

The challenger is fitted to the earlier part of the series and scored on the later one, three hours
ahead. If it is not better than persistence, persistence serves. The later part also shows how often
the bounds hold, which shifts them. A promoted model is then fitted to the whole series.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np

from slurm_ext.core.errors import ModelError
from slurm_ext.model.arrays import Array
from slurm_ext.model.demand.artifact import load, serialize
from slurm_ext.model.demand.model import DAY, HORIZONS, LEVELS, WEEK, DemandModel, features
from slurm_ext.model.demand.series import FOLDER, PREFIX, read
from slurm_ext.training.challenger import Challenger, Export, Scores, TrainingVerdict
from slurm_ext.training.demand.fit import changes, fit, shortfalls

EARLIER = 0.7  # of the series; the rest judges
FEWEST_SLOTS = 3 * WEEK
LEAST_GAIN = 0.005  # of the mean absolute error, by which persistence has to be beaten
COMPARED = 1000  # newest slots whose forecasts are compared after reading back
ERRORS = "{ours:.2f} off three hours ahead, persistence {theirs:.2f}"


def challenge_pools(state_dir: Path) -> list[TrainingVerdict]:
    """Challenge persistence in every recorded pool; `details` has the pool's name.

    Raises ModelError if a series cannot be read or a model cannot be written.
    """
    paths = sorted((state_dir / FOLDER).glob(f"{PREFIX}*.csv"))
    return [_challenge_pool(path, state_dir / "models" / "demand") for path in paths]


def _challenge_pool(path: Path, models: Path) -> TrainingVerdict:
    pool = path.stem.removeprefix(PREFIX)
    try:
        series = read(path)
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror}") from None
    verdict = challenge(series.need, series.first, models / pool, series.weights)
    if not verdict.promoted:
        (models / pool / "current").unlink(missing_ok=True)
    return replace(verdict, details={"pool": pool})


def challenge(
    need: Array, first_slot: int, folder: Path, weights: Array | None = None
) -> TrainingVerdict:
    """Fit, score, and let the model serve from `folder`/current if it beats persistence.

    `need` in nodes, one value per slot, without gaps; `weights` of the slots, none: all alike.
    Errors are in nodes, three hours ahead.
    """
    days = f"{len(need) / DAY:.1f} days of demand are known, {FEWEST_SLOTS / DAY:.0f} needed"
    verdict = TrainingVerdict(why=f"persistence: {days} to learn from", runs=len(need))
    if len(need) < FEWEST_SLOTS:
        return verdict
    rows = features(need, first_slot)
    row_weights = np.ones(len(need)) if weights is None else weights
    split, furthest = int(EARLIER * len(need)), HORIZONS[-1]

    def score(early: DemandModel) -> Scores:
        later = slice(split, len(need) - furthest)
        change = changes(need, furthest)[later]
        ours = np.abs(early.change(rows[later], furthest) - change)
        return {
            "ours": {"mae": float(np.average(ours, weights=row_weights[later]))},
            "persistence": {"mae": float(np.average(np.abs(change), weights=row_weights[later]))},
        }

    def export(early: DemandModel, _: Scores) -> Export:
        shifts = shortfalls(early, need, rows, split, row_weights)
        model = replace(fit(need, rows, row_weights), shifts=shifts)
        newest = features(need[-COMPARED:], 0)
        return Export(serialize(model), lambda path: difference(model, load(path), newest))

    return Challenger(
        kind="demand",
        folder=folder,
        fit=lambda: fit(need[:split], rows[:split], row_weights[:split]),
        score=score,
        baselines={"persistence": f"persistence: the learned was {ERRORS}"},
        export=export,
        success=f"learned: {ERRORS}",
        gain=1 - LEAST_GAIN,
    ).challenge(verdict)


def difference(ours: DemandModel, other: DemandModel, rows: Array) -> float:
    """Largest difference of changes and peaks in nodes."""
    off = [np.abs(ours.change(rows, h) - other.change(rows, h)).max() for h in HORIZONS]
    off += [np.abs(ours.peak(rows, level) - other.peak(rows, level)).max() for level in LEVELS]
    return float(max(off))
