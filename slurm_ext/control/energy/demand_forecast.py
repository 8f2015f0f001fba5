"""Forecast of a pool's peak demand in the next hours: promoted model, else persistence."""

from dataclasses import dataclass
from pathlib import Path

from slurm_ext.core.errors import ModelError
from slurm_ext.model.artifact_store import current
from slurm_ext.model.demand.artifact import load
from slurm_ext.model.demand.model import SLOT_S, DemandPredictor, features, persistence_of
from slurm_ext.model.demand.series import RecordedDemand, pool_file_name


@dataclass(frozen=True, slots=True)
class DemandForecast:
    """The bound, in nodes; `knows` is False while there is too little to go by."""

    peak: float
    by: str
    knows: bool


def folder_of(state_dir: Path, pool: str) -> Path:
    """Folder of a pool's models."""
    return state_dir / "models" / "demand" / pool_file_name(pool)


def serving(state_dir: Path, pool: str) -> DemandPredictor | None:
    """The promoted model; None where there is none. Raises ModelError where it is damaged."""
    folder = current(folder_of(state_dir, pool))
    return None if folder is None else load(folder)


def forecast(
    series: RecordedDemand, model: DemandPredictor | None, *, level: float, history_h: float
) -> DemandForecast:
    """From the series up to now, which has the running slot last."""
    need = series.need
    hours = len(need) * SLOT_S / 3600.0
    if hours < history_h:
        reason = f"{hours:.1f} h of demand are known, {history_h:g} are needed"
        return DemandForecast(float("inf"), reason, knows=False)
    if len(need) == 0:
        return DemandForecast(0.0, "nothing known", knows=True)
    outlook = persistence_of(need, series.weights) if model is None else model
    rows = features(need, series.first)[-1:]
    return DemandForecast(float(need[-1] + outlook.peak(rows, level)[0]), outlook.name, knows=True)


def safely(state_dir: Path, pool: str) -> tuple[DemandPredictor | None, str]:
    """The promoted model, and what is wrong with it: then persistence serves."""
    try:
        return serving(state_dir, pool), ""
    except ModelError as error:
        return None, f"{error}; persistence serves"
