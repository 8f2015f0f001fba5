"""Fits how long jobs run, and promotes it if it predicts later jobs best.

It is fitted to jobs that had ended when the later ones were submitted. The baselines are the mean
of history (names backing off, QSSF's estimator) and the median of all. The serving model is
compared only on jobs submitted after all that it has learned from. A promoted model is then fitted
to all jobs; its bounds are those that the later jobs needed. In all of this no user has more than a
share (fair_weights), and a share of the jobs has only what submissions tell: trees that have seen
no job without a time limit take it for 0.
"""

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slurm_ext.core.errors import ModelError
from slurm_ext.core.stats import fair_weights
from slurm_ext.model.arrays import Array, weighted_quantile
from slurm_ext.model.duration.adaptive_bounds import AdaptiveBounds
from slurm_ext.model.duration.artifact import FOLDER, TYPED, DurationArtifact, load, serialize
from slurm_ext.model.duration.model import DurationModel, DurationQuantiles
from slurm_ext.model.duration.query import SITE, query_of_run, runtime_s
from slurm_ext.model.duration.state import JobFeatures
from slurm_ext.model.duration.user_bounds import UserBounds
from slurm_ext.training.challenger import Challenger, Export, Scores, TrainingVerdict
from slurm_ext.training.duration import fit as training
from slurm_ext.training.duration.fit import FinishedJob, features, fit
from slurm_ext.training.promotion import serving_model

FEWEST = 500  # jobs: the newest fifth of the older ones sets bounds, and fitting needs 200
FEWEST_LATER = 100  # submitted since the cut, to score
LATER, CALIBRATION = 0.3, 0.2  # of all jobs; of those before them


@dataclass(frozen=True, eq=False, slots=True)
class JobTable:
    """Features and times of all jobs, by submission; s since the epoch, logs of s."""

    rows: Array
    submit_s: Array
    end_s: Array
    log_s: Array
    owners: NDArray[np.str_]

    @property
    def window_s(self) -> tuple[float, float]:
        """First submission and last end."""
        return float(self.submit_s[0]), float(self.end_s.max())


def challenge(jobs: Sequence[FinishedJob], models: Path) -> TrainingVerdict:
    """Fit, score, and let the model serve from `models/duration/current` if it predicts better.

    `jobs` by submission, all ended. Raises ModelError if the model cannot be written, or does not
    read back as it is.
    """
    why = f"{len(jobs)} ended jobs are too few, {FEWEST} are needed"
    verdict = TrainingVerdict(why=why, runs=len(jobs))
    if len(jobs) < FEWEST:
        return verdict
    table, serving = _table(jobs), serving_model(models / FOLDER, _load_with_window)
    cut_s = _cut(table.submit_s, None if serving is None else serving.about["window_s"][1])
    older, later = table.end_s <= cut_s, table.submit_s >= cut_s
    if later.sum() < FEWEST_LATER:
        since = " since the serving model" if serving else ""
        return replace(verdict, why=f"{int(later.sum())} jobs{since} are too few to judge")
    since_s = _calibrated_since(table, older)
    if (table.end_s <= since_s).sum() < training.FEWEST:
        return replace(verdict, why="too few jobs had ended when the later ones were submitted")
    rows, log_s, owners = table.rows[later], table.log_s[later], table.owners[later].tolist()

    def scores(model: DurationArtifact) -> Scores:
        times = table.submit_s[later], table.end_s[later]
        weights, (mean, median) = _fair(owners), _naive(table, table.end_s <= cut_s)
        history = rows[:, SITE.features.index("history")]
        history = np.where(np.isnan(history), mean, history)
        return {
            "ours": score(model, rows, log_s, times, owners),
            "history": {"mae": _error(history, log_s, weights)},
            "median": {"mae": _error(median, log_s, weights)},
            "incumbent": None
            if serving is None
            else score(serving, _rows(serving, jobs, table)[later], log_s, times, owners),
        }

    def export(model: DurationArtifact, scores: Scores) -> Export:
        about = {"window_s": table.window_s, "runs": len(jobs), "scores": scores, TYPED: True}
        bounds = _bounds(model.durations.predict(rows), log_s, owners)
        whole = DurationArtifact(_fit(table, np.ones(len(jobs), bool)), bounds, about)
        return Export(serialize(whole), lambda folder: difference(whole, load(folder), rows))

    return Challenger(
        kind="duration",
        folder=models / FOLDER,
        fit=lambda: _fitted(table, older, since_s),
        score=scores,
        baselines={
            "history": "its error {ours:.3f} is not below the naive {theirs:.3f} of history's mean",
            "median": "its error {ours:.3f} is not below the naive median's {theirs:.3f}",
        },
        export=export,
        success="its error on later jobs is the smallest",
    ).challenge(replace(verdict, window_s=table.window_s))


def _table(jobs: Sequence[FinishedJob]) -> JobTable:
    submit_s = np.array([job.asked.submit_s for job in jobs])
    end_s = np.array([np.inf if job.end_s is None else job.end_s for job in jobs])
    durations = np.array([job.duration_s for job in jobs], dtype=float)
    rows = features(SITE, jobs, ended_only=True, typed=True)
    owners = np.array([job.asked.names.get("user", "") for job in jobs])
    return JobTable(rows, submit_s, end_s, np.log(np.maximum(durations, 1.0)), owners)


def _rows(model: DurationArtifact, jobs: Sequence[FinishedJob], table: JobTable) -> Array:
    """The jobs' features by the model's own plan."""
    plan = model.durations.plan
    same = plan == SITE
    return table.rows if same else features(plan, jobs, ended_only=True, typed=True)


def _cut(submit_s: Array, since_s: float | None) -> float:
    """Time from which jobs are scored; `since_s`: end of what the serving model learned from."""
    fresh = len(submit_s) if since_s is None else int((submit_s > since_s).sum())
    later = round(LATER * len(submit_s))
    later = later if since_s is None else min(later, fresh // 2)
    return float(submit_s[len(submit_s) - later]) if later else float("inf")


def _calibrated_since(table: JobTable, older: NDArray[np.bool_]) -> float:
    """Time from which the older jobs set bounds; minus infinity if there are none."""
    submitted = table.submit_s[older]
    place = int(len(submitted) * (1 - CALIBRATION))
    return float(submitted[place]) if len(submitted) else -np.inf


def _fitted(table: JobTable, older: NDArray[np.bool_], since_s: float) -> DurationArtifact:
    """Fit to what had ended by the cut; a model without the newest of it sets the bounds."""
    first = table.end_s <= since_s
    before = _fit(table, first)
    newest = older & (table.submit_s >= since_s)
    predicted, owners = before.predict(table.rows[newest]), table.owners[newest].tolist()
    bounds = _bounds(predicted, table.log_s[newest], owners)
    return DurationArtifact(_fit(table, older), bounds)


def _fit(table: JobTable, which: NDArray[np.bool_]) -> DurationModel:
    owners = table.owners[which].tolist()
    every = which.all()  # then they are not copied; else the copy is given away
    return fit(SITE, table.rows if every else table.rows[which], table.log_s[which], owners=owners)


def _bounds(predicted: DurationQuantiles, log_s: Array, owners: Sequence[str]) -> AdaptiveBounds:
    bounds = AdaptiveBounds()
    levels = predicted.known.tolist()
    bounds.start(levels, predicted.log_low - log_s, log_s - predicted.log_high, owners)
    return bounds


def _fair(owners: Sequence[str]) -> Array:
    return np.array(fair_weights(owners))


def _naive(table: JobTable, which: NDArray[np.bool_]) -> tuple[float, float]:
    """Mean and median of these jobs' logs."""
    log_s, weights = table.log_s[which], _fair(table.owners[which].tolist())
    return float(np.average(log_s, weights=weights)), weighted_quantile(log_s, weights, 0.5)


def _error(predicted: Array | float, log_s: Array, weights: Array) -> float:
    return float(np.average(np.abs(predicted - log_s), weights=weights))


def score(
    artifact: DurationArtifact,
    rows: Array,
    log_s: Array,
    times: tuple[Array, Array],
    owners: Sequence[str],
) -> dict[str, float]:
    """Of logs, the median's mean absolute error and the mean's R2; the share inside the interval.

    `times`: submissions, in order, and ends. `owners`: the jobs' users, of whom nobody counts for
    more than a share.
    """
    predicted, weights = artifact.durations.predict(rows), _fair(owners)
    spread = float(weights @ (log_s - np.average(log_s, weights=weights)) ** 2)
    left = float(weights @ (predicted.log_mean - log_s) ** 2)
    inside = _inside(UserBounds(artifact.bounds.copy()), predicted, log_s, times, owners)
    return {
        "mae": _error(predicted.log_median, log_s, weights),
        "log_r2": 1 - left / max(spread, 1e-12),
        "coverage90": float(np.average(inside, weights=weights)),
    }


def _inside(
    bounds: UserBounds,
    predicted: DurationQuantiles,
    log_s: Array,
    times: tuple[Array, Array],
    owners: Sequence[str],
) -> list[bool]:
    """True for jobs inside the interval while every one that ends moves it, as in service."""
    below, above = predicted.log_low - log_s, log_s - predicted.log_high
    running: list[tuple[float, int]] = []
    inside = list[bool]()
    for at, (submit_s, end_s) in enumerate(zip(*times, strict=True)):
        while running and running[0][0] <= submit_s:
            _, ended = heapq.heappop(running)
            bounds.update(owners[ended], int(predicted.known[ended]), below[ended], above[ended])
        low, high = bounds.shifts(owners[at], int(predicted.known[at]))
        inside.append(bool(below[at] <= low and above[at] <= high))
        heapq.heappush(running, (end_s, at))
    return inside


def _load_with_window(folder: Path) -> DurationArtifact:
    """Load a model that says what it learned from, submissions among it. Raises ModelError."""
    artifact = load(folder)
    if not _has_window(artifact.about):
        raise ModelError(f"{folder}: has no window_s")
    if not artifact.about.get(TYPED):
        raise ModelError(f"{folder}: is of an earlier release")
    return artifact


def _has_window(about: Mapping[str, Any]) -> bool:
    window = about.get("window_s")
    return isinstance(window, list) and len(window) == 2 and isinstance(window[1], float)


def difference(first: DurationArtifact, other: DurationArtifact, rows: Array) -> float:
    """Largest difference of log means, medians and bounds, jobs with no known feature included."""
    queries = np.vstack([rows, np.full((1, rows.shape[1]), np.nan)])
    ours, theirs = (artifact.durations.predict(queries) for artifact in (first, other))
    names = ("log_mean", "log_median", "log_low", "log_high")
    off = max(float(np.abs(getattr(ours, name) - getattr(theirs, name)).max()) for name in names)
    moved = np.abs(
        np.subtract(
            [*first.bounds.low, *first.bounds.high], [*other.bounds.low, *other.bounds.high]
        )
    )
    return max(off, float(moved.max()))


def finished_jobs(runs: Iterable[Mapping[str, Any]]) -> list[FinishedJob]:
    """Jobs by submission, of rows of `history.queries.runs` in any order.

    Left out: runs without a submission, an end, or a duration of at least 0 s, and ends before the
    submission (a clock that jumped). A row without its duration has end less start.
    """
    jobs: dict[tuple[Any, ...], FinishedJob] = {}
    shared = _Shared()
    for run in runs:
        query, elapsed_s = query_of_run(run), runtime_s(run)
        if query is None or elapsed_s is None:
            continue
        key = tuple(run.get(name) for name in ("cluster", "job_id", "restart"))
        earlier = jobs.get(key)
        if earlier is None or (earlier.end_s or 0.0) < run["end_s"]:
            asked = shared.of(query.submission())
            jobs[key] = FinishedJob(asked, float(run["end_s"]), elapsed_s)
    return sorted(jobs.values(), key=lambda job: job.asked.submit_s)


class _Shared:
    """Names and numbers of submissions, each once: a hundred thousand jobs repeat few of them."""

    def __init__(self) -> None:
        self._names: dict[tuple[str, ...], Mapping[str, str]] = {}
        self._numbers: dict[tuple[float | None, ...], Mapping[str, float | None]] = {}

    def of(self, asked: JobFeatures) -> JobFeatures:
        """The same submission."""
        names = self._names.setdefault(tuple(asked.names.values()), asked.names)
        numbers = self._numbers.setdefault(tuple(asked.numbers.values()), asked.numbers)
        return JobFeatures(asked.submit_s, names, numbers)
