"""Whether how long jobs ran foretells how long later ones did; promoted if it does.

Learnt from jobs that had ended when the later ones were submitted; held against the history's own
mean (names backing off, QSSF's estimator), the median of all, and the serving model, which is
judged only by jobs submitted after all that it learnt from. What is promoted is then learnt from
everything; its bounds are those that the later jobs asked for.
"""

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slurm_ext.core.errors import ModelError
from slurm_ext.model.artifact_store import current
from slurm_ext.model.duration.adaptive_bounds import AdaptiveBounds
from slurm_ext.model.duration.artifact import FOLDER, DurationArtifact, load, serialize
from slurm_ext.model.duration.model import DurationQuantiles
from slurm_ext.model.duration.query import SITE
from slurm_ext.training.duration import fit as training
from slurm_ext.training.duration.export import check
from slurm_ext.training.duration.fit import Array, FinishedJob, features, fit
from slurm_ext.training.promotion import TrainingVerdict, promote, promotion_veto

FEWEST = 500  # jobs: the newest fifth of the older ones sets bounds, and fitting needs 200
FEWEST_LATER = 100  # submitted since the cut, to score
LATER, CALIBRATION = 0.3, 0.2  # of all jobs; of those before them


@dataclass(frozen=True, slots=True, kw_only=True)
class DurationReport(TrainingVerdict):
    """`scores` by ours, history, median and incumbent (`mae` of natural logs)."""


@dataclass(frozen=True, eq=False, slots=True)
class _Jobs:
    """Of one length, by submission; s since the epoch, logs of s."""

    rows: Array
    submit_s: Array
    end_s: Array
    log_s: Array

    @property
    def window_s(self) -> tuple[float, float]:
        return float(self.submit_s[0]), float(self.end_s.max())


def challenge(jobs: Sequence[FinishedJob], models: Path) -> DurationReport:
    """Learn, score, and serve it from `models/duration/current` where it foretells better.

    `jobs` by submission, all ended. Raises ModelError where it cannot be written, or does not read
    back as it is.
    """
    told = DurationReport(promoted=False, why="", runs=len(jobs))
    if len(jobs) < FEWEST:
        return replace(told, why=f"{len(jobs)} ended jobs are too few, {FEWEST} are needed")
    every, serving = _columns(jobs), _serving(models)
    cut_s = _cut(every.submit_s, None if serving is None else serving.about["window_s"][1])
    older, later = every.end_s <= cut_s, every.submit_s >= cut_s
    if later.sum() < FEWEST_LATER:
        since = " since the serving model" if serving else ""
        return replace(told, why=f"{int(later.sum())} jobs{since} are too few to judge")
    since_s = _calibrated_since(every, older)
    if (every.end_s <= since_s).sum() < training.FEWEST:
        return replace(told, why="too few jobs had ended when the later ones were submitted")
    ours = _learnt(every, older, since_s)
    scores, bounds = _scores(every, ours, serving, jobs, cut_s)
    told = replace(told, window_s=every.window_s, scores=scores)
    naive = min((scores["history"], scores["median"]), key=lambda one: one["mae"])
    why_not = promotion_veto(scores["ours"], naive, scores["incumbent"])
    if why_not is not None:
        return replace(told, why=why_not)
    about = {"window_s": every.window_s, "runs": len(jobs), "scores": scores}
    whole = DurationArtifact(fit(SITE, every.rows, every.log_s), bounds, about)
    name = _serve(whole, models / FOLDER, every.rows[later])
    return replace(told, promoted=True, why="its error on later jobs is the smallest", model=name)


def _columns(jobs: Sequence[FinishedJob]) -> _Jobs:
    submit_s = np.array([job.asked.submit_s for job in jobs])
    end_s = np.array([np.inf if job.end_s is None else job.end_s for job in jobs])
    lasted = np.array([job.duration_s for job in jobs], dtype=float)
    rows = features(SITE, jobs, ended_only=True)
    return _Jobs(rows, submit_s, end_s, np.log(np.maximum(lasted, 1.0)))


def _cut(submit_s: Array, since_s: float | None) -> float:
    """From when on jobs are scored; `since_s`: until when the serving model has learnt."""
    fresh = len(submit_s) if since_s is None else int((submit_s > since_s).sum())
    later = round(LATER * len(submit_s))
    later = later if since_s is None else min(later, fresh // 2)
    return float(submit_s[len(submit_s) - later]) if later else float("inf")


def _calibrated_since(every: _Jobs, older: NDArray[np.bool_]) -> float:
    """From when on the older jobs set bounds; minus infinity where there are none."""
    submitted = every.submit_s[older]
    place = int(len(submitted) * (1 - CALIBRATION))
    return float(submitted[place]) if len(submitted) else -np.inf


def _learnt(every: _Jobs, older: NDArray[np.bool_], since_s: float) -> DurationArtifact:
    """From what had ended by the cut; bounds from the newest of it, by a model without them."""
    first = every.end_s <= since_s
    before = fit(SITE, every.rows[first], every.log_s[first])
    newest = older & (every.submit_s >= since_s)
    bounds = _bounds(before.predict(every.rows[newest]), every.log_s[newest])
    return DurationArtifact(fit(SITE, every.rows[older], every.log_s[older]), bounds)


def _bounds(told: DurationQuantiles, log_s: Array) -> AdaptiveBounds:
    bounds = AdaptiveBounds()
    bounds.start(told.known.tolist(), told.log_low - log_s, log_s - told.log_high)
    return bounds


def _scores(
    every: _Jobs,
    ours: DurationArtifact,
    serving: DurationArtifact | None,
    jobs: Sequence[FinishedJob],
    cut_s: float,
) -> tuple[dict[str, Any], AdaptiveBounds]:
    """Of the later jobs; and the bounds that would have held of them."""
    later = every.submit_s >= cut_s
    rows, log_s = every.rows[later], every.log_s[later]
    known = every.log_s[every.end_s <= cut_s]
    history = rows[:, SITE.features.index("history")]
    history = np.where(np.isnan(history), known.mean(), history)
    told = ours.durations.predict(rows)
    times = every.submit_s[later], every.end_s[later]
    scores = {
        "ours": score(ours, rows, log_s, times),
        "history": {"mae": float(np.abs(history - log_s).mean())},
        "median": {"mae": float(np.abs(np.median(known) - log_s).mean())},
        "incumbent": None,
    }
    if serving is not None:
        plan = serving.durations.plan
        seen = rows if plan == SITE else features(plan, jobs, ended_only=True)[later]
        scores["incumbent"] = score(serving, seen, log_s, times)
    return scores, _bounds(told, log_s)


def score(
    artifact: DurationArtifact, rows: Array, log_s: Array, times: tuple[Array, Array]
) -> dict[str, float]:
    """Mean absolute error and R2 of logs, and the share inside the 90 % interval.

    `times`: submissions, in order, and ends.
    """
    told = artifact.durations.predict(rows)
    spread = float(((log_s - log_s.mean()) ** 2).sum())
    return {
        "mae": float(np.abs(told.log_mean - log_s).mean()),
        "log_r2": 1 - float(((told.log_mean - log_s) ** 2).sum()) / max(spread, 1e-12),
        "coverage90": _held(artifact.bounds.copy(), told, log_s, times),
    }


def _held(
    bounds: AdaptiveBounds, told: DurationQuantiles, log_s: Array, times: tuple[Array, Array]
) -> float:
    """How often the interval held while its bounds moved with every job that ended, as live."""
    below, above = told.log_low - log_s, log_s - told.log_high
    running: list[tuple[float, int]] = []
    inside = 0
    for at, (submit_s, end_s) in enumerate(zip(*times, strict=True)):
        while running and running[0][0] <= submit_s:
            _, ended = heapq.heappop(running)
            bounds.update(int(told.known[ended]), below[ended], above[ended])
        known = int(told.known[at])
        inside += below[at] <= bounds.low[known] and above[at] <= bounds.high[known]
        heapq.heappush(running, (end_s, at))
    return float(inside / len(log_s))


def _serving(models: Path) -> DurationArtifact | None:
    """What is served now, with its window; a model that is damaged, or has none, serves nobody."""
    folder = current(models / FOLDER)
    try:
        served = None if folder is None else load(folder)
    except ModelError:
        return None
    return served if served is not None and _window(served.about) else None


def _window(about: Mapping[str, Any]) -> bool:
    window = about.get("window_s")
    return isinstance(window, list) and len(window) == 2 and isinstance(window[1], float)


def _serve(artifact: DurationArtifact, models: Path, rows: Array) -> str:
    return promote(
        models, "duration", serialize(artifact), lambda folder: check(artifact, folder, rows)
    )
