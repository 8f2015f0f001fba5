"""Run times of jobs in service: a promoted model, and history's statistics of its users.

    lengths = load_predictor(state_dir / "models", None)      # None: nothing was promoted
    lengths.take(rows)                                 # ended jobs, in the order they came in
    lengths.predict([DurationQuery(submit_s=now, user="ann", job_name="train", gpus=2)])

Only jobs that ended are added: running jobs are ignored here as in training (`ended_only`), so that
both see the same. Thread-safe: one thread may add rows while another predicts.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from math import exp, expm1, inf, log
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from slurm_ext.model.artifact_store import current
from slurm_ext.model.duration.artifact import FOLDER, TYPED, DurationArtifact, load
from slurm_ext.model.duration.key_statistics import STATISTICS
from slurm_ext.model.duration.model import MOST_LOG
from slurm_ext.model.duration.query import DurationQuery, query_of_run, runtime_s
from slurm_ext.model.duration.state import DurationState
from slurm_ext.model.duration.user_bounds import UserBounds

MOST_KEYS = 2048  # kept of a level: at most some 20 MiB in all
MOST_RUNS = 100_000  # the newest: a predictor is first filled with them, and training reads as many
_AT_ONCE = 200  # rows added under one lock: some 10 ms
_Ended = tuple[list[float], float, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimePrediction:
    """Predicted run time of a job in s, at most its time limit; 90 % end between low and high.

    Half of such jobs end before `median_s`; `mean_s` is that of logs. `runs` ended ones are known
    of its `like` (user, job_name, gpus: the names that they share with it; empty: all jobs).
    """

    median_s: float
    mean_s: float
    low_s: float
    high_s: float
    runs: int
    like: tuple[str, ...] = ()


class DurationHistory:
    """Statistics of ended jobs; models with the same plan hand them on to each other."""

    def __init__(self, state: DurationState) -> None:
        self.state = state
        self.last_id = 0  # of history's runs, the newest that was added
        self.lock = Lock()


class DurationPredictor:
    """A promoted model and the history that it predicts from."""

    def __init__(
        self, artifact: DurationArtifact, name: str, past: DurationHistory | None = None
    ) -> None:
        """Start a model; `past` is another model's history, reused if the plans are equal."""
        plan = artifact.durations.plan
        if past is None or past.state.plan != plan:
            past = DurationHistory(DurationState(plan, MOST_KEYS))
        self.name = name
        self.past = past
        self._artifact = artifact
        self._bounds = UserBounds(artifact.bounds.copy())
        window = artifact.about.get("window_s")
        self._learned_until_s = window[1] if window else inf
        self._typed = bool(artifact.about.get(TYPED))

    @property
    def last_id(self) -> int:
        """Newest run of history that was added; 0: none yet."""
        return self.past.last_id

    def knows(self, job: DurationQuery) -> bool:
        """False of a job without a number that all jobs had which the model has learned from.

        Models of earlier releases are such: their trees take a missing number for 0.
        """
        return self._typed or job.complete

    def take(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Add ended jobs, rows of `history.views.finished_jobs`; impossible rows are skipped."""
        left = iter(rows)
        while some := list(islice(left, _AT_ONCE)):
            with self.past.lock:
                new = [example for example in map(self._take, some) if example is not None]
                self._judge(new)

    def predict(self, jobs: Sequence[DurationQuery]) -> list[RuntimePrediction]:
        """Predict each job. Without history the intervals are very wide."""
        if not jobs:
            return []
        with self.past.lock:
            rows = np.array([self.past.state.row(job.submission()) for job in jobs])
        logs = self._artifact.durations.predict(rows)
        users = [job.user or "" for job in jobs]
        levels = logs.known.tolist()
        shifts = np.array([self._bounds.shifts(*pair) for pair in zip(users, levels, strict=True)])
        low, high = logs.log_low - shifts[:, 0], logs.log_high + shifts[:, 1]
        return [
            self._prediction(job, row, *times)
            for job, row, *times in zip(
                jobs, rows, logs.log_median, logs.log_mean, low, high, strict=True
            )
        ]

    def _take(self, row: Mapping[str, Any]) -> _Ended | None:
        """Add a job. Returns its features, log and user if the model has not learned from it."""
        self.past.last_id = max(self.past.last_id, row.get("id") or 0)
        query, elapsed_s = query_of_run(row), runtime_s(row)
        if query is None or elapsed_s is None:
            return None
        job, later = query.submission(), query.submit_s > self._learned_until_s
        state = self.past.state.row(job) if later else None
        self.past.state.lived(job, float(row["end_s"]), elapsed_s)
        return None if state is None else (state, log(max(1.0, elapsed_s)), query.user or "")

    def _judge(self, new: list[_Ended]) -> None:
        """Move the bounds by each job that ended since training, so that nine in ten stay inside.

        The features are those at its end, because those at its submission are not kept.
        """
        if not new:
            return
        logs = self._artifact.durations.predict(np.array([row for row, _, _ in new]))
        for at, (_, log_s, user) in enumerate(new):
            below, above = logs.log_low[at] - log_s, log_s - logs.log_high[at]
            self._bounds.update(user, int(logs.known[at]), float(below), float(above))

    def _prediction(
        self, job: DurationQuery, row: Any, median: float, mean: float, low: float, high: float
    ) -> RuntimePrediction:
        plan = self._artifact.durations.plan
        level = int(row[plan.features.index("known_level")])
        has_history = level < len(plan.levels)
        runs = round(expm1(row[level * len(STATISTICS)])) if has_history else 0
        most = job.time_limit_s if job.time_limit_s and job.time_limit_s > 0 else float("inf")
        low, high = min(low, mean), max(high, mean)
        logs = {"median": min(max(low, median), high), "mean": mean, "low": low, "high": high}
        times = {f"{name}_s": min(exp(min(one, MOST_LOG)), most) for name, one in logs.items()}
        return RuntimePrediction(**times, runs=runs, like=plan.levels[level] if has_history else ())


def load_predictor(models: Path, now: DurationPredictor | None) -> DurationPredictor | None:
    """Return `now` if it is still the promoted model, else the promoted one. Raises ModelError."""
    folder = current(models / FOLDER)
    if folder is None:
        return None
    if now is None:
        return DurationPredictor(load(folder), folder.name)
    return (
        now if folder.name == now.name else DurationPredictor(load(folder), folder.name, now.past)
    )
