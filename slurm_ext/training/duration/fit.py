"""Fits how long jobs run from jobs that ended, as each was seen when it was submitted.

Trees learn the log duration, from zero and from the history's mean: squared error for the mean,
pinball loss for the 5 % and 95 % bounds. A job that has not ended teaches nothing but that it runs
(features `running`, `oldest`, `recent`): its age is a lower bound, and trees have no use for one.
So long jobs submitted last are missing from training; older ones of their length are not.
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slurm_ext.core.errors import ModelError
from slurm_ext.model.boosted_trees import Forest
from slurm_ext.model.duration.model import MISSED, DurationModel, relative
from slurm_ext.model.duration.state import DurationState, FeaturePlan, JobFeatures

Array = NDArray[np.float64]
FEWEST = 200  # ended jobs: fewer give leaves that are single users' days
TREES: dict[str, Any] = {
    "learning_rate": 0.03,
    "num_leaves": 15,
    "feature_fraction": 0.3,
    "bagging_fraction": 0.7,
    "bagging_freq": 1,
    "extra_trees": True,
    "lambda_l2": 5.0,
    "max_bin": 63,
    "seed": 0,
    "deterministic": True,
    "force_row_wise": True,
    "verbosity": -1,
}
ROUNDS = 200
LEAF = 200  # jobs; a twentieth of all where that is fewer


@dataclass(frozen=True, slots=True)
class FinishedJob:
    """One job: `end_s` is when it was gone, None while it runs; duration None: nobody knows."""

    asked: JobFeatures
    end_s: float | None
    duration_s: float | None


def features(plan: FeaturePlan, jobs: Sequence[FinishedJob], *, ended_only: bool = False) -> Array:
    """Rows of every job at its submission, by what had ended then; jobs sorted by submission.

    `ended_only`: and nothing is known of those that run still, as where history alone tells.
    """
    state = DurationState(plan)
    rows = np.full((len(jobs), len(plan.features)), np.nan)
    running: list[tuple[float, int]] = []
    for at, job in enumerate(jobs):
        while running and running[0][0] <= job.asked.submit_s:
            end_s, gone = heapq.heappop(running)
            if ended_only:
                state.lived(jobs[gone].asked, end_s, jobs[gone].duration_s)
            else:
                state.ended(gone, end_s, jobs[gone].duration_s)
        rows[at] = state.row(job.asked)
        if not ended_only:
            state.submitted(at, job.asked)
        if job.end_s is not None:
            heapq.heappush(running, (job.end_s, at))
    return rows


def fit(plan: FeaturePlan, rows: Array, log_s: Array, *, rounds: int = ROUNDS) -> DurationModel:
    """Of `features` and natural logs of durations. Raises ModelError where jobs are too few."""
    if len(rows) < FEWEST:
        raise ModelError(f"{len(rows)} ended jobs are too few, {FEWEST} are needed")
    start = float(log_s.mean())
    base, seen = relative(plan, rows, start)
    squared: dict[str, Any] = {"objective": "l2"}
    low, high = ({"objective": "quantile", "alpha": at} for at in (MISSED, 1 - MISSED))
    return DurationModel(
        plan,
        start,
        mean=_boosted(seen, log_s - base, squared, rounds),
        plain=_boosted(rows, log_s - start, squared, rounds),
        low=_boosted(seen, log_s - base, low, rounds),
        high=_boosted(seen, log_s - base, high, rounds),
    )


def _boosted(rows: Array, target: Array, asked: dict[str, Any], rounds: int) -> Forest:
    import lightgbm

    asked = {**TREES, "min_data_in_leaf": min(LEAF, len(rows) // 20), **asked}
    data = lightgbm.Dataset(rows, target, params={"verbosity": -1})
    booster = lightgbm.train(asked, data, rounds)
    forest = planted(booster.dump_model())
    some = rows[:: max(1, len(rows) // 500)]
    off = float(np.abs(booster.predict(some) - forest(some)).max())
    if not off <= 1e-6:
        raise ModelError(f"trees from arrays answer {off:.1g} (log) away from LightGBM's")
    return forest


def planted(dump: dict[str, Any]) -> Forest:
    """A LightGBM model (`dump_model`) as arrays."""
    nodes: list[tuple[int, float, int, int, int, float]] = []
    depths: list[int] = []
    roots = [_node(tree["tree_structure"], nodes, depths, 0) for tree in dump["tree_info"]]
    columns = list(zip(*nodes, strict=True))
    whole = [np.array(columns[at], dtype=np.int64) for at in (0, 2, 3, 4)]
    return Forest(
        roots=np.array(roots, dtype=np.int64),
        depth=max(depths),
        feature=whole[0],
        threshold=np.array(columns[1]),
        nan_left=whole[1],
        left=whole[2],
        right=whole[3],
        value=np.array(columns[5]),
    )


def _node(
    node: dict[str, Any],
    nodes: list[tuple[int, float, int, int, int, float]],
    depths: list[int],
    depth: int,
) -> int:
    at = len(nodes)
    if "leaf_value" in node:
        nodes.append((-1, 0.0, 0, at, at, float(node["leaf_value"])))
        depths.append(depth)
        return at
    nodes.append((-1, 0.0, 0, at, at, 0.0))
    left = _node(node["left_child"], nodes, depths, depth + 1)
    right = _node(node["right_child"], nodes, depths, depth + 1)
    threshold = float(node["threshold"])
    # Where training saw no NaN, LightGBM takes one for 0 (missing_type None).
    nan_left = node["default_left"] if node["missing_type"] == "NaN" else threshold >= 0
    nodes[at] = (int(node["split_feature"]), threshold, int(nan_left), left, right, 0.0)
    return at
