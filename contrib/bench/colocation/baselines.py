"""Standard methods as baselines: the same columns, untuned, fixed seeds.

Each method predicts the speeds of the rows `queries` from the rows `train` and their speeds. A
counter that was not measured is NaN and gets the column's median over `train`.
"""

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from contrib.bench.common.arrays import Array

Method = Callable[[Array, Array, Array], Array]

TREES = 300
MOST_GP_ROWS = 600  # a Gaussian process costs the cube of its rows: a fixed sample above this


def mean(train: Array, speeds: Array, queries: Array) -> Array:
    """Jobs in general."""
    del train
    return np.full(len(queries), speeds.mean())


def additive(load: Array, beside: Array) -> Array:
    """Additive utilisation: what does not fit in 100 % is shared out in proportion (loads 0..1)."""
    total = np.nan_to_num(load, nan=0.5) + np.nan_to_num(beside, nan=0.5)
    return np.minimum(1.0, 1.0 / np.maximum(total, 1e-9))


def every(train: Array, speeds: Array, queries: Array, *, quick: bool) -> dict[str, Array]:
    """Predictions of all methods by name; `quick` leaves the slow ones out."""
    usable = ~np.isnan(train).all(axis=0)
    train, queries = _filled(train[:, usable], queries[:, usable])
    methods = {name: METHODS[name] for name in (QUICK if quick else METHODS)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a process that did not converge is still a baseline
        return {name: method(train, speeds, queries) for name, method in methods.items()}


def ridge(train: Array, speeds: Array, queries: Array) -> Array:
    """A straight line in the standardised columns."""
    from sklearn.linear_model import RidgeCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return _fitted(
        make_pipeline(StandardScaler(), RidgeCV(np.logspace(-3, 3, 13))), train, speeds, queries
    )


def random_forest(train: Array, speeds: Array, queries: Array) -> Array:
    """The strongest published opponent of unseen models and families."""
    from sklearn.ensemble import RandomForestRegressor

    model = RandomForestRegressor(TREES, min_samples_leaf=2, random_state=0, n_jobs=1)
    return _fitted(model, train, speeds, queries)


def extra_trees(train: Array, speeds: Array, queries: Array) -> Array:
    """Trees with drawn thresholds."""
    from sklearn.ensemble import ExtraTreesRegressor

    model = ExtraTreesRegressor(TREES, min_samples_leaf=2, random_state=0, n_jobs=1)
    return _fitted(model, train, speeds, queries)


def lightgbm(train: Array, speeds: Array, queries: Array) -> Array:
    """Boosted trees."""
    from lightgbm import LGBMRegressor

    model = LGBMRegressor(
        n_estimators=300,
        learning_rate=0.05,
        num_leaves=15,
        min_child_samples=5,
        random_state=0,
        n_jobs=1,
        deterministic=True,
        verbosity=-1,
    )
    return _fitted(model, train, speeds, queries)


def gaussian_process(train: Array, speeds: Array, queries: Array) -> Array:
    """One length per column, found by its own optimiser."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
    from sklearn.preprocessing import StandardScaler

    if len(train) > MOST_GP_ROWS:
        rows = np.random.default_rng(0).choice(len(train), MOST_GP_ROWS, replace=False)
        train, speeds = train[rows], speeds[rows]
    scale = StandardScaler().fit(train)
    kernel = ConstantKernel(0.1) * RBF(np.full(train.shape[1], 3.0), (0.1, 100)) + WhiteKernel(0.01)
    model = GaussianProcessRegressor(kernel, normalize_y=True, random_state=0)
    return _fitted(model, scale.transform(train), speeds, scale.transform(queries))


METHODS: Mapping[str, Method] = {
    "mean": mean,
    "ridge": ridge,
    "random_forest": random_forest,
    "extra_trees": extra_trees,
    "lightgbm": lightgbm,
    "gaussian_process": gaussian_process,
}
QUICK = ("mean", "ridge", "random_forest")


def _fitted(model: Any, train: Array, speeds: Array, queries: Array) -> Array:
    return np.asarray(model.fit(train, speeds).predict(queries), dtype=np.float64)


def _filled(train: Array, queries: Array) -> tuple[Array, Array]:
    middle = np.nanmedian(train, axis=0)
    return tuple(np.where(np.isnan(rows), middle, rows) for rows in (train, queries))  # type: ignore[return-value]  # a pair
