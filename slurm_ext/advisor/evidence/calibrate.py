"""Factor by which intervals have to be widened, from the ledger's own outcomes. Pure."""

from collections.abc import Iterable

from slurm_ext.history.views.lookup import Residual
from slurm_ext.model.throughput.calibration import CalibrationPoint, interval_factor

NEWEST = 200  # outcomes: what is new on the cluster counts soon


def factor_of(residuals: Iterable[Residual]) -> float:
    """The factor for the next predictions; 1 where too few outcomes are known."""
    return interval_factor([unwidened(one) for one in residuals])


def unwidened(one: Residual) -> CalibrationPoint:
    """Undo the factor of the prediction's day; intervals are symmetric in the log."""
    low, high = (_narrowed(one.predicted, bound, one.factor) for bound in (one.low, one.high))
    return CalibrationPoint(predicted=one.predicted, low=low, high=high, measured=one.achieved)


def _narrowed(predicted: float, bound: float, factor: float) -> float:
    if min(predicted, bound, factor) <= 0:
        return bound  # no belief that a model of ours ever had; it counts as a miss
    return float(predicted * (bound / predicted) ** (1 / factor))
