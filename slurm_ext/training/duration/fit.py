"""Fits the run time of jobs to jobs that ended, with the features of their submission.

Trees learn the log duration, from zero and from the history's mean: squared error for the mean,
pinball loss for the median and the 5 % and 95 % bounds. A running job is not an example but counts
(features `running`, `oldest`, `recent`): its age is a lower bound, and trees have no use for one.
So long jobs submitted last are missing from training; older ones of their length are not.
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from slurm_ext.core.errors import ModelError
from slurm_ext.core.stats import fair_weights
from slurm_ext.model.arrays import Array
from slurm_ext.model.boosted_trees import Forest
from slurm_ext.model.duration.model import MISSED, DurationModel, relative
from slurm_ext.model.duration.query import as_typed
from slurm_ext.model.duration.state import DurationState, FeaturePlan, JobFeatures
from slurm_ext.training.forests import fit_forest

FEWEST = 200  # ended jobs: fewer give leaves that are single users' days
TREES: dict[str, Any] = {
    "num_leaves": 15,
    "feature_fraction": 0.3,
    "bagging_fraction": 0.7,
    "max_bin": 63,
}
ROUNDS = 200
TYPED_SHARE = 1 / 3  # of the jobs, as submissions: they name no memory and no time limit
LEAF = 200  # jobs; a twentieth of all where that is fewer


@dataclass(frozen=True, slots=True)
class FinishedJob:
    """One job: `end_s` is when it was gone, None while it runs; duration None: unknown."""

    asked: JobFeatures
    end_s: float | None
    duration_s: float | None


def features(
    plan: FeaturePlan, jobs: Sequence[FinishedJob], *, ended_only: bool = False, typed: bool = False
) -> Array:
    """Rows of every job at its submission, by what had ended then; jobs sorted by submission.

    `ended_only`: and nothing is known of those that run still, as where history alone tells.
    `typed`: a share of the jobs is asked for as submissions come, without what Slurm filled in.
    """
    short = np.random.default_rng(0).random(len(jobs)) < (TYPED_SHARE if typed else 0)
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
        rows[at] = state.row(as_typed(job.asked) if short[at] else job.asked)
        if not ended_only:
            state.submitted(at, job.asked)
        if job.end_s is not None:
            heapq.heappush(running, (job.end_s, at))
    return rows


def fit(
    plan: FeaturePlan,
    rows: Array,
    log_s: Array,
    *,
    rounds: int = ROUNDS,
    owners: Sequence[str] | None = None,
) -> DurationModel:
    """Of `features` and natural logs of durations. Raises ModelError where jobs are too few.

    `owners`: the jobs' users, of whom nobody has more than a share; None: all count alike.
    """
    if len(rows) < FEWEST:
        raise ModelError(f"{len(rows)} ended jobs are too few, {FEWEST} are needed")
    fair = fair_weights(owners or [])
    weights = np.array(fair) if min(fair, default=1.0) < 1 else None
    start = float(np.average(log_s, weights=weights))
    squared: dict[str, Any] = {"objective": "l2"}
    plain = _boosted(rows, log_s - start, squared, rounds, weights)
    base, shifted = relative(plan, rows, start)
    del rows  # a copy of the caller's, mostly: it may be large
    low, half, high = ({"objective": "quantile", "alpha": at} for at in (MISSED, 0.5, 1 - MISSED))
    return DurationModel(
        plan,
        start,
        mean=_boosted(shifted, log_s - base, squared, rounds, weights),
        plain=plain,
        median=_boosted(shifted, log_s - base, half, rounds, weights),
        low=_boosted(shifted, log_s - base, low, rounds, weights),
        high=_boosted(shifted, log_s - base, high, rounds, weights),
    )


def _boosted(
    rows: Array, target: Array, params: dict[str, Any], rounds: int, weights: Array | None
) -> Forest:
    leaf = {"min_data_in_leaf": min(LEAF, len(rows) // 20)}
    return fit_forest(rows, target, {**TREES, **leaf, **params}, rounds, weights)
