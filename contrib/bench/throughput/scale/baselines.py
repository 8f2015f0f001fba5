"""Baselines of extrapolation: laws fitted to the job, and learners trained on other jobs.

The laws see the job's own known counts. The learners see, of every other job, the same known counts
and what the wanted ones gave; they predict the log rate over that at the largest known count.
"""

import warnings
from collections.abc import Callable, Sequence
from itertools import pairwise
from math import exp, log
from typing import Any

import numpy as np

from contrib.bench.common.arrays import Array
from contrib.bench.throughput.scale.series import Series
from slurm_ext.model.scaling.speedup import CountMeasurement

Known = Sequence[CountMeasurement]


def linear(known: Known, count: float) -> float:
    """Twice the units, twice the rate."""
    return known[-1].rate * count / known[-1].count


def flat(known: Known, _count: float) -> float:
    """More units than measured bring nothing."""
    return known[-1].rate


def power_law(known: Known, count: float) -> float:
    """A straight line through logs of counts and rates."""
    if len(known) < 2:
        return linear(known, count)
    slope, start = np.polyfit(
        [log(point.count) for point in known], [log(point.rate) for point in known], 1
    )
    return float(np.exp(start + slope * np.log(count)))


def amdahl(known: Known, count: float) -> float:
    """Seconds = a + b/k, both at least 0, least squares of relative errors."""
    return _law(known, count, lambda k: (np.ones_like(k), 1 / k))


def amdahl_from_largest(known: Known, count: float) -> float:
    """Amdahl's law through the smallest and the largest known count alone."""
    return amdahl([known[0], known[-1]], count)


def usl(known: Known, count: float) -> float:
    """The universal scalability law: seconds = a + b/k + c*k, none below 0."""
    return _law(known, count, lambda k: (np.ones_like(k), 1 / k, k))


def _law(known: Known, count: float, columns: Callable[[Array], tuple[Array, ...]]) -> float:
    from scipy.optimize import nnls

    counts = np.array([point.count for point in known], dtype=np.float64)
    seconds = 1 / np.array([point.rate for point in known])
    matrix = np.stack(columns(counts), axis=1) / seconds[:, None]
    costs, _ = nnls(matrix, np.ones(len(known)))
    wanted = np.stack(columns(np.array([count])), axis=1)[0]
    return float(1 / max(float(wanted @ costs), 1e-300))


LAWS: dict[str, Callable[[Known, float], float]] = {
    "linear": linear,
    "as_largest_known": flat,
    "power_law": power_law,
    "amdahl": amdahl,
    "amdahl_from_largest": amdahl_from_largest,
    "usl": usl,
}


def features(series: Series, count: float) -> list[float]:
    """Features of a learner: slopes and levels of the known counts, batch, kind, wanted count."""
    known = series.known
    slopes = [log(b.rate / a.rate) / log(b.count / a.count) for a, b in pairwise(known)]
    last = slopes[-1] if slopes else 1.0
    first = slopes[0] if slopes else 1.0
    size = log(known[-1].rate), log(series.batch), log(known[-1].count)
    kind = float(series.kind == "gpus_each_spread"), float(series.kind == "gpus_each_consolidated")
    return [first, last, last - first, *size, *kind, log(count / known[-1].count)]


def learners() -> dict[str, Any]:
    """Fresh models of scikit-learn and LightGBM by name; nothing in them is tuned to these data."""
    from lightgbm import LGBMRegressor
    from sklearn.ensemble import RandomForestRegressor

    return {
        "lightgbm_transfer": LGBMRegressor(
            n_estimators=200, min_child_samples=2, random_state=0, n_jobs=1, verbose=-1
        ),
        "random_forest_transfer": RandomForestRegressor(
            n_estimators=300, min_samples_leaf=2, random_state=0, n_jobs=1
        ),
    }


class Transfer:
    """The learners, and a Gaussian process on the errors of Amdahl's law, learned from `train`."""

    def __init__(self, train: Sequence[Series]) -> None:
        rows, targets = _examples(train, flat)
        _, residuals = _examples(train, amdahl)
        self._learned = len(rows) > 1
        if not self._learned:
            return
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # LightGBM: features have no names; GP: a scale's bound
            self._learners = {
                name: one.fit(np.array(rows), targets) for name, one in learners().items()
            }
            self._process = gaussian_process().fit(np.array(rows), residuals)

    def rates(self, series: Series) -> dict[str, list[float]]:
        """By learner, at the wanted counts; without examples the law itself."""
        counts = [one.count for one in series.wanted]
        laws = dict.fromkeys(learners(), flat) | {"gp_on_residual": amdahl}
        bases = {name: [law(series.known, k) for k in counts] for name, law in laws.items()}
        if not self._learned:
            return bases
        asked = np.array([features(series, count) for count in counts])
        learned = {**self._learners, "gp_on_residual": self._process}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return {
                name: [
                    base * exp(log_gain)
                    for base, log_gain in zip(bases[name], one.predict(asked), strict=True)
                ]
                for name, one in learned.items()
            }


def gaussian_process() -> Any:
    """Fresh, on standardised features; its scales are fitted to the likelihood."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    kernel = ConstantKernel(0.1) * RBF(2.0, (0.3, 30.0)) + WhiteKernel(0.01)
    process = GaussianProcessRegressor(kernel, normalize_y=True, random_state=0)
    return make_pipeline(StandardScaler(), process)


def _examples(
    train: Sequence[Series], base: Callable[[Known, float], float]
) -> tuple[list[list[float]], list[float]]:
    rows, targets = [], []
    for series in train:
        for one in series.wanted:
            rows.append(features(series, one.count))
            targets.append(log(one.rate / base(series.known, one.count)))
    return rows, targets
