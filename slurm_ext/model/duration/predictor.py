"""How long jobs will run, asked live: a promoted model, and what history remembers of its users.

    lengths = load_predictor(state_dir / "models", None)      # None: nothing was promoted
    lengths.take(rows)                                 # ended jobs, in the order they came in
    lengths.predict([DurationQuery(submit_s=now, user="ann", job_name="train", gpus=2)])

Causal: only jobs that ended are taken. Of those that run still nothing is known, here as in
training (`ended_only`), so that both see the same. May be asked while another thread takes.
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
from slurm_ext.model.duration.artifact import FOLDER, DurationArtifact, load
from slurm_ext.model.duration.key_statistics import STATISTICS
from slurm_ext.model.duration.model import MOST_LOG
from slurm_ext.model.duration.query import DurationQuery, query_of_run, runtime_s
from slurm_ext.model.duration.state import DurationState

MOST_KEYS = 2048  # remembered of a level: at most some 20 MiB in all
MOST_RUNS = 100_000  # the newest: what a memory is first filled from, and training's most
_AT_ONCE = 200  # rows between which others may ask: some 10 ms


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimePrediction:
    """How long a job will run, in s; low and high hold nine in ten. Not beyond its time limit.

    `mean_s` is of logs: half of such jobs end before it. `runs` ended ones are known of its
    `like` (user, job_name, gpus: the names that they share with it; empty: all jobs).
    """

    mean_s: float
    low_s: float
    high_s: float
    runs: int
    like: tuple[str, ...] = ()


class DurationHistory:
    """What ended jobs left behind; models of one plan hand it on to each other."""

    def __init__(self, state: DurationState) -> None:
        self.state = state
        self.last_id = 0  # of history's runs, the newest that was taken
        self.lock = Lock()


class DurationPredictor:
    """A model with its memory."""

    def __init__(
        self, artifact: DurationArtifact, name: str, past: DurationHistory | None = None
    ) -> None:
        """`past`: another model's, used where this one understands it."""
        plan = artifact.durations.plan
        if past is None or past.state.plan != plan:
            past = DurationHistory(DurationState(plan, MOST_KEYS))
        self.name = name
        self.past = past
        self._artifact = artifact
        self._bounds = artifact.bounds.copy()
        window = artifact.about.get("window_s")
        self._learnt_until_s = window[1] if window else inf

    @property
    def last_id(self) -> int:
        """Of history's runs, the newest that was taken; 0: none yet."""
        return self.past.last_id

    def take(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Ended jobs as rows of `history.ended`; what cannot be is left out."""
        left = iter(rows)
        while some := list(islice(left, _AT_ONCE)):
            with self.past.lock:
                new = [told for told in map(self._take, some) if told is not None]
                self._judge(new)

    def predict(self, jobs: Sequence[DurationQuery]) -> list[RuntimePrediction]:
        """One for each. Nobody knows anything at first: then they are very wide."""
        if not jobs:
            return []
        with self.past.lock:
            rows = np.array([self.past.state.row(job.submission()) for job in jobs])
        told = self._artifact.durations.predict(rows)
        shifts = np.array([self._bounds.low, self._bounds.high])[:, told.known]
        low, high = told.log_low - shifts[0], told.log_high + shifts[1]
        return [
            self._length(job, row, *logs)
            for job, row, *logs in zip(jobs, rows, told.log_mean, low, high, strict=True)
        ]

    def _take(self, row: Mapping[str, Any]) -> tuple[list[float], float] | None:
        """Remember it; what was known of a job that the model has not learnt, and its log."""
        self.past.last_id = max(self.past.last_id, row.get("id") or 0)
        asked, lasted = query_of_run(row), runtime_s(row)
        if asked is None or lasted is None:
            return None
        job, later = asked.submission(), asked.submit_s > self._learnt_until_s
        known = self.past.state.row(job) if later else None
        self.past.state.lived(job, float(row["end_s"]), lasted)
        return None if known is None else (known, log(max(1.0, lasted)))

    def _judge(self, new: list[tuple[list[float], float]]) -> None:
        """Bounds move with every job that ended since training, so that nine in ten stay inside.

        By what is known at its end, not at its submission: nobody keeps that.
        """
        if not new:
            return
        told = self._artifact.durations.predict(np.array([row for row, _ in new]))
        for at, (_, log_s) in enumerate(new):
            below, above = told.log_low[at] - log_s, log_s - told.log_high[at]
            self._bounds.update(int(told.known[at]), float(below), float(above))

    def _length(
        self, job: DurationQuery, row: Any, middle: float, low: float, high: float
    ) -> RuntimePrediction:
        plan = self._artifact.durations.plan
        level = int(row[plan.features.index("known_level")])
        known = level < len(plan.levels)
        runs = round(expm1(row[level * len(STATISTICS)])) if known else 0
        most = job.time_limit_s if job.time_limit_s and job.time_limit_s > 0 else float("inf")
        mean_s, low_s, high_s = (
            min(exp(min(log_s, MOST_LOG)), most)
            for log_s in (middle, min(low, middle), max(high, middle))
        )
        like = plan.levels[level] if known else ()
        return RuntimePrediction(mean_s=mean_s, low_s=low_s, high_s=high_s, runs=runs, like=like)


def load_predictor(models: Path, now: DurationPredictor | None) -> DurationPredictor | None:
    """`now` where it is still the promoted model, else the promoted one. Raises ModelError."""
    folder = current(models / FOLDER)
    if folder is None:
        return None
    if now is None:
        return DurationPredictor(load(folder), folder.name)
    return (
        now if folder.name == now.name else DurationPredictor(load(folder), folder.name, now.past)
    )
