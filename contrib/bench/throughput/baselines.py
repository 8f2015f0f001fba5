"""Baselines: laws fitted to the same points, and trees trained on other trainings.

Every law gives log samples/s at rows of model.scaling_terms.columns() (log batch, GPUs, nodes,
most and fewest GPUs on a node).
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import least_squares

from contrib.bench.common.arrays import Array

Law = Callable[[Array, Array, Array], Array]  # known rows, their log rates, asked rows

UNSEEN_PULL = 0.01  # keeps terms that no point shows where they began
BOOSTS = 150
TREES = {
    "objective": "l1",
    "learning_rate": 0.05,
    "num_leaves": 15,
    "min_data_in_leaf": 20,
    "num_threads": 1,
    "verbosity": -1,
    "seed": 0,
    "deterministic": True,
}


@dataclass(frozen=True, eq=False, slots=True)
class Lesson:
    """One reveal of a training that was measured whole: what trees learn to correct."""

    known: Array
    known_logs: Array
    asked: Array
    asked_logs: Array


def linear(points: Array, logs: Array, queries: Array) -> Array:
    """Rate per GPU of the fewest GPUs measured, at the nearest batches; more GPUs cost nothing."""
    fewest = points[:, 1] == points[:, 1].min()
    order = np.argsort(points[fewest, 0])
    batches = points[fewest, 0][order]
    per_sample = (logs[fewest] - np.log(points[fewest, 1]))[order]
    nearest = np.interp(queries[:, 0], batches, per_sample)
    return np.asarray(np.log(queries[:, 1]) + nearest, dtype=np.float64)


def log_linear(points: Array, logs: Array, queries: Array) -> Array:
    """Log rate as a straight line in log GPUs, nodes and batch (ridge)."""

    def sides(rows: Array) -> Array:
        return np.column_stack(
            (np.ones(len(rows)), rows[:, 0], np.log(rows[:, 1]), np.log(rows[:, 2]))
        )

    left = sides(points)
    solved = np.linalg.solve(left.T @ left + 1e-3 * np.eye(4), left.T @ logs)
    return np.asarray(sides(queries) @ solved, dtype=np.float64)


def usl(points: Array, logs: Array, queries: Array) -> Array:
    """Gunther's law over GPUs (Amdahl's with a retrograde term), a line in the batch within."""
    batch0 = points[:, 0].min()

    def law(terms: Array, rows: Array) -> Array:
        fixed, each, serial, crosstalk = np.exp(terms)
        gpus, batch = rows[:, 1], np.exp(rows[:, 0] - batch0)
        slowed = 1 + serial * (gpus - 1) + crosstalk * gpus * (gpus - 1)
        step = np.log((fixed + each * batch) * slowed)
        return np.asarray(rows[:, 0] + np.log(gpus) - step, dtype=np.float64)

    step = float(np.median(points[:, 0] - logs + np.log(points[:, 1])))
    starts = [np.array((step + d, step - d, -3.0, -7.0 - d)) for d in (0.0, 2.0, -2.0)]
    return law(_fitted(law, points, logs, starts, (-25.0, 25.0)), queries)


def pollux(points: Array, logs: Array, queries: Array) -> Array:
    """Pollux's seven terms with its bounds and its pulls (algorithm of adaptdl's goodput model)."""
    batch0 = points[:, 0].min()

    def law(terms: Array, rows: Array) -> Array:
        log_ac, log_bc, log_an, log_bn, log_ar, log_br, overlap = terms
        gpus, nodes, batch = rows[:, 1], rows[:, 2], np.exp(rows[:, 0] - batch0)
        compute = np.exp(log_ac) + np.exp(log_bc) * batch
        more = np.maximum(gpus - 2, 0)
        several = np.exp(log_an) + np.exp(log_bn) * more
        one = np.exp(log_ar) + np.exp(log_br) * more
        sync = np.where(gpus == 1, 1e-12, np.where(nodes > 1, several, one))
        gamma = 1 + 9 / (1 + np.exp(-overlap))
        step = np.logaddexp(gamma * np.log(compute), gamma * np.log(sync)) / gamma
        return np.asarray(rows[:, 0] + np.log(gpus) - step, dtype=np.float64)

    def pulls(terms: Array) -> Array:
        gamma = 1 + 9 / (1 + np.exp(-terms[6]))
        ratios = np.exp(np.clip((terms[3] - terms[2], terms[5] - terms[4]), -20, 5))
        inside_costlier = np.maximum(terms[4] + np.log(1.1) - terms[2], 0)
        regular = ([np.sqrt(1e-3) * (gamma - 1)], 0.1 * ratios, [0.1 * inside_costlier])
        return np.concatenate((*regular, UNSEEN_PULL * (terms - base)))

    step = float(np.median(points[:, 0] - logs + np.log(points[:, 1])))
    base = np.array((step, step, step - 1, step - 3, step - 2, step - 4, -1.0))
    starts = [base, base + np.array((-3, 0, 1, 1, 1, 1, 1)), base - np.array((0, 3, 0, 2, 0, 2, 1))]
    return law(_fitted(law, points, logs, starts, (-25.0, 12.0), pulls), queries)


def gp_on_pollux(points: Array, logs: Array, queries: Array, asked_pollux: Array) -> Array:
    """Pollux's fit and a Gaussian process on what it leaves (scikit-learn, its own optimizer)."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

    def sides(rows: Array) -> Array:
        return np.column_stack((rows[:, 0], np.log(rows[:, 1:4])))

    kernel = ConstantKernel(0.05, (1e-4, 1.0)) * RBF(np.ones(4), (0.2, 20.0)) + WhiteKernel(
        1e-3, (1e-5, 0.1)
    )
    process = GaussianProcessRegressor(kernel, normalize_y=False, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # optimizers at a bound say so
        process.fit(sides(points), logs - pollux(points, logs, points))
        return np.asarray(asked_pollux + process.predict(sides(queries)), dtype=np.float64)


def corrected_law(lessons: Sequence[Lesson], predicted: Sequence[Array], law: Law) -> Law:
    """`law` times LightGBM's prediction of its error; `predicted` are its logs there."""
    import lightgbm

    both = list(zip(lessons, predicted, strict=True))
    rows = np.concatenate(
        [_sides(lesson.known, lesson.known_logs, lesson.asked, t) for lesson, t in both]
    )
    off = np.concatenate([lesson.asked_logs - t for lesson, t in both])
    trees = lightgbm.train(TREES, lightgbm.Dataset(rows, np.clip(off, -3, 3)), BOOSTS)

    def corrected(points: Array, logs: Array, queries: Array) -> Array:
        mine = law(points, logs, queries)
        return np.asarray(
            mine + trees.predict(_sides(points, logs, queries, mine)), dtype=np.float64
        )

    return corrected


LAWS: Mapping[str, Law] = {
    "linear": linear,
    "log_linear": log_linear,
    "usl": usl,
    "pollux": pollux,
}


def _sides(points: Array, logs: Array, queries: Array, predicted: Array) -> Array:
    """Features of a row for the trees: place, distance to the known points, their scaling."""
    per_batch = logs - np.log(points[:, 1])
    alone, wide = points[:, 2] == 1, points[:, 2] > 1
    whole = (
        per_batch[alone].max() - per_batch[alone].min() if alone.any() else 0.0,
        per_batch.max() - per_batch[wide].mean() if wide.any() else np.nan,
        points[:, 1].max(),
        len(points),
    )
    return np.column_stack(
        (
            np.log(queries[:, 1:5]),
            queries[:, 0] - points[:, 0].min(),
            queries[:, 0] - points[:, 0].max(),
            predicted - np.log(queries[:, 1]) - per_batch.max(),
            np.tile(whole, (len(queries), 1)),
        )
    )


def _fitted(
    law: Callable[[Array, Array], Array],
    known: Array,
    logs: Array,
    starts: list[Array],
    bounds: tuple[float, float],
    pulls: Callable[[Array], Array] | None = None,
) -> Array:
    """The terms of least squared log error, the best start's."""

    def misses(terms: Array) -> Array:
        off = (law(terms, known) - logs) / np.sqrt(len(logs))
        return off if pulls is None else np.concatenate((off, pulls(terms)))

    fits = [
        least_squares(misses, np.clip(start, *bounds), bounds=bounds, max_nfev=60)
        for start in starts
    ]
    return np.asarray(min(fits, key=lambda fit: fit.cost).x, dtype=np.float64)
