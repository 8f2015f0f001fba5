"""Replay of one table: each later job is predicted from the jobs ended at its submission.

The model is trained at the cut and again every `retrain_s`, on jobs that had ended by then.

The tables have no start times, so a job is taken to end at submission + duration: exact for NASA
(submission is the start there), too early by the waiting time for Philly and LCG (for all rules
alike). A job that still ran when the training table was cut (`censored`) counts as running from
its submission; once it has run twice its age at the cut, it is dropped and nothing is learned from
it.
"""

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from contrib.bench.common.arrays import Array, Marks
from contrib.bench.duration import baselines, scores
from contrib.bench.duration.tables import Job, Table, read
from slurm_ext.model.duration.adaptive_bounds import AdaptiveBounds
from slurm_ext.model.duration.model import DurationModel, DurationQuantiles
from slurm_ext.training.duration.fit import FinishedJob, features, fit

LATER = 0.25  # of the jobs: the test where one folder is both
EARLIER = 1 / 3  # of the others: where settings are chosen
CALIBRATION = 0.2  # of the jobs before the cut: the newest, not learned from, set the first bounds
QUICK_ROUNDS, ROUNDS = 60, 200
QUICK_JOBS = (20000, 10000)  # the last before the cut, the first after it


@dataclass(frozen=True, eq=False, slots=True)
class Trace:
    """Jobs by submission; from `cut_s` on they are predicted."""

    jobs: Sequence[Job]
    cut_s: float
    submit_s: Array
    end_s: Array  # infinite where censored
    log_s: Array
    skipped: Sequence[str]

    @property
    def asked(self) -> Marks:
        """Which jobs are scored."""
        return (self.submit_s >= self.cut_s) & np.isfinite(self.end_s)


def trace(
    table: Table, train: Path, test: Path, *, quick: bool = False, earlier: bool = False
) -> Trace:
    """Raises InputError where a folder's table cannot be used.

    `earlier`: only what a folder taken twice learns from, the last third of it as the later jobs:
    a place to choose on what is not scored.
    """
    learned = read(train, table)
    later = learned if train.resolve() == test.resolve() else read(test, table)
    if later is learned:
        jobs, skipped = learned.jobs, learned.skipped
        if earlier:
            jobs = jobs[: int(len(jobs) * (1 - LATER))]
        cut_s = jobs[int(len(jobs) * (1 - (EARLIER if earlier else LATER)))].asked.submit_s
    else:
        cut_s = later.jobs[0].asked.submit_s
        known = [job for job in learned.jobs if job.asked.submit_s < cut_s]
        jobs, skipped = [*known, *later.jobs], [*learned.skipped, *later.skipped]
    if quick:
        first = sum(job.asked.submit_s < cut_s for job in jobs)
        jobs = jobs[max(0, first - QUICK_JOBS[0]) : first + QUICK_JOBS[1]]
    submit_s = np.array([job.asked.submit_s for job in jobs])
    ends = np.array([np.inf if job.censored else job.end_s for job in jobs])
    logs = np.log(np.maximum([job.duration_s for job in jobs], 1.0))
    return Trace(jobs, cut_s, submit_s, ends, logs, skipped)


def scored(table: Table, train: Path, test: Path, *, quick: bool) -> dict[str, Any]:
    """Figures of ours and of every baseline on the later jobs."""
    past, cuts, logs = predicted(table, train, test, quick=quick)
    asked, real = past.asked, np.exp(past.log_s[past.asked])
    inside = (logs["low"] <= past.log_s) & (past.log_s <= logs["high"])
    others = baselines.every(table, past.jobs, cuts)
    coverage = scores.coverage(inside[asked], past.submit_s[asked])
    width = float(np.median(np.exp((logs["high"] - logs["low"])[asked])))
    later = past.submit_s >= past.cut_s
    running, beyond = ~np.isfinite(past.end_s), past.log_s > logs["high"]  # the log of its age
    weeks = scores.weeks_of_all(inside[later], running[later], beyond[later], past.submit_s[later])
    above = float((past.log_s <= logs["high"])[asked].mean())
    ours = {**scores.errors(np.exp(logs["mean"][asked]), real), **coverage}
    median_s = np.exp(logs["median"][asked])
    return {
        "n": int(asked.sum()),
        "still_running": int((running & later).sum()),
        "weeks": weeks,
        "learnt_from": int((past.end_s <= past.cut_s).sum()),
        "trainings": len(cuts),
        "ours": {**ours, "below_upper": above, "median_high_over_low": width},
        "ours_median": {**scores.errors(median_s, real), "below": float((real > median_s).mean())},
        "baselines": {name: scores.errors(one[asked], real) for name, one in others.items()},
        "skipped": list(past.skipped),
    }


def predicted(
    table: Table, train: Path, test: Path, *, quick: bool, earlier: bool = False
) -> tuple[Trace, list[float], dict[str, Array]]:
    """The trace, when models were trained, and logs of seconds as `_ours` tells them."""
    past = trace(table, train, test, quick=quick, earlier=earlier)
    every_s = np.inf if quick else table.retrain_s
    last = float(past.submit_s.max())
    cuts = [past.cut_s]
    while cuts[-1] + every_s <= last:
        cuts.append(cuts[-1] + every_s)
    rows = features(table.plan, [_past(job) for job in past.jobs])
    return past, cuts, _ours(table, past, rows, cuts, QUICK_ROUNDS if quick else ROUNDS)


def _past(job: Job) -> FinishedJob:
    if job.censored:
        return FinishedJob(job.asked, job.asked.submit_s + 2 * job.duration_s, None)
    return FinishedJob(job.asked, job.end_s, job.duration_s)


def _ours(
    table: Table, past: Trace, rows: Array, cuts: Sequence[float], rounds: int
) -> dict[str, Array]:
    """Logs of seconds by `mean`, `median`, `low` and `high`; NaN before the cut."""
    bounds = AdaptiveBounds()
    logs = {name: np.full(len(rows), np.nan) for name in ("mean", "median", "low", "high")}

    def learn(by: float) -> DurationModel:
        known = past.end_s <= by
        return fit(table.plan, rows[known], past.log_s[known], rounds=rounds)

    _calibrate(bounds, past, rows, learn)
    waiting: list[tuple[float, int]] = []
    for cut, until in zip(cuts, (*cuts[1:], np.inf), strict=True):
        which = np.flatnonzero((past.submit_s >= cut) & (past.submit_s < until))
        if not len(which):
            continue
        prediction = learn(cut).predict(rows[which])
        logs["mean"][which], logs["median"][which] = prediction.log_mean, prediction.log_median
        _adapt(bounds, past, which, prediction, logs, waiting)
    return logs


def _calibrate(
    bounds: AdaptiveBounds, past: Trace, rows: Array, learn: Callable[[float], DurationModel]
) -> None:
    """First bounds, from the newest jobs before the cut, by a model that has not seen them."""
    before = past.submit_s[past.submit_s < past.cut_s]
    since = float(before[int(len(before) * (1 - CALIBRATION))])
    which = (past.submit_s >= since) & (past.end_s <= past.cut_s)
    prediction, real = learn(since).predict(rows[which]), past.log_s[which]
    bounds.start(prediction.known.tolist(), prediction.log_low - real, real - prediction.log_high)


def _adapt(
    bounds: AdaptiveBounds,
    past: Trace,
    which: NDArray[np.int64],
    prediction: DurationQuantiles,
    logs: dict[str, Array],
    waiting: list[tuple[float, int]],
) -> None:
    """Bounds move with every job that ended, or outlived one, before the next is submitted."""
    for at, job in enumerate(which.tolist()):
        now_s = float(past.submit_s[job])
        while waiting and waiting[0][0] <= now_s:
            end_s, gone = heapq.heappop(waiting)
            bounds.ended(gone, end_s)
        low, high = float(prediction.log_low[at]), float(prediction.log_high[at])
        logs["low"][job], logs["high"][job] = bounds.watch(
            job, now_s, int(prediction.known[at]), low, high
        )
        if np.isfinite(past.end_s[job]):
            heapq.heappush(waiting, (float(past.end_s[job]), job))
