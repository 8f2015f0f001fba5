"""Teaches the energy loop from the demand that it recorded: a pool each, persistence challenged."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from slurm_ext.core.errors import ModelError
from slurm_ext.model.demand.artifact import load, serialize
from slurm_ext.model.demand.model import HORIZONS, LEVELS, Array, DemandModel, features
from slurm_ext.model.demand.series import FOLDER, PREFIX, read
from slurm_ext.training.demand.fit import challenge
from slurm_ext.training.promotion import promote

CLOSE = 1e-9  # nodes


@dataclass(frozen=True, slots=True, kw_only=True)
class DemandReport:
    """What came of one pool; errors in nodes, three hours ahead, on the later part."""

    pool: str
    promoted: bool
    why: str
    slots: int
    model: str | None = None
    learned_mae: float | None = None
    persistence_mae: float | None = None


def teach(state_dir: Path) -> list[DemandReport]:
    """Every recorded pool. Raises ModelError where a model cannot be written."""
    series = sorted((state_dir / FOLDER).glob(f"{PREFIX}*.csv"))
    return [_teach(path, state_dir / "models" / "demand") for path in series]


def _teach(path: Path, models: Path) -> DemandReport:
    pool = path.stem.removeprefix(PREFIX)
    try:
        first, need, _ = read(path)
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror}") from None
    verdict = challenge(need, first)
    told = DemandReport(
        pool=pool,
        promoted=isinstance(verdict.serves, DemandModel),
        why=verdict.reason,
        slots=len(need),
        learned_mae=verdict.learned_mae,
        persistence_mae=verdict.persistence_mae,
    )
    if not isinstance(verdict.serves, DemandModel):
        (models / pool / "current").unlink(missing_ok=True)
        return told
    return replace(told, model=_serve(verdict.serves, models / pool, need))


def _serve(model: DemandModel, models: Path, need: Array) -> str:
    """Its name, once what is written answers as the model does."""
    rows = features(need[-1000:], 0)
    return promote(
        models, "demand", serialize(model), lambda folder: _check(model, load(folder), rows)
    )


def _check(model: DemandModel, again: DemandModel, rows: Array) -> None:
    off = [np.abs(model.change(rows, h) - again.change(rows, h)).max() for h in HORIZONS]
    off += [np.abs(model.peak(rows, level) - again.peak(rows, level)).max() for level in LEVELS]
    if not max(off) <= CLOSE:
        raise ModelError(f"read back, it answers {max(off):.1g} nodes away; not served")
