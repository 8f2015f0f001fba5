"""Run times of waiting jobs: the promoted model, else similar runs, else the limit.

They order the queue, so the model is believed only of a user who has ended jobs: what other users'
jobs did, of whatever name, makes nobody's job shorter or longer.

Each round reads what is new in the history; without a history the limits remain. Jobs that were
submitted together correct each other: what has ended changes the estimates of its waiting siblings.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slurm_ext.control.queue.jobs import unit_of
from slurm_ext.core.errors import HistoryError, ModelError
from slurm_ext.core.files import file_id
from slurm_ext.history.store.store import History, open_history
from slurm_ext.history.views.finished_jobs import finished_since, newest_finished
from slurm_ext.model.duration.predictor import MOST_RUNS, DurationPredictor, load_predictor
from slurm_ext.model.duration.query import DurationQuery, runtime_s
from slurm_ext.model.duration.submission_batch import SubmissionBatches
from slurm_ext.slurm.records import JobInfo

NO_LIMIT_S = 7 * 86400.0  # what a job without a time limit is taken for
log = logging.getLogger("dlqueue.queue")


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeEstimate:
    """A run time in s, and who tells it: "model", "runs" (of its like), "limit", "siblings"."""

    seconds: float
    by: str
    low_s: float | None = None  # low and high hold nine in ten
    high_s: float | None = None


class RuntimeEstimates:
    """Asked each round."""

    def __init__(self, state_dir: Path, *, busy_timeout_ms: int) -> None:
        self._state_dir, self._busy_ms = state_dir, busy_timeout_ms
        self._lengths: DurationPredictor | None = None
        self._means = _Means()
        self._file: tuple[int, int] | None = None
        self._said = ""
        self.siblings = SubmissionBatches()
        self._heard_of = 0

    def of(self, jobs: Sequence[JobInfo], now_s: float) -> list[RuntimeEstimate]:
        """One for each."""
        self._refresh()
        if self._lengths is None:
            return [self._means.of(job) or _limit(job) for job in jobs]
        predictions = self._lengths.predict([duration_query(job, now_s) for job in jobs])
        return [
            RuntimeEstimate(seconds=p.mean_s, by="model", low_s=p.low_s, high_s=p.high_s)
            if "user" in p.like
            else _limit(job)
            for job, p in zip(jobs, predictions, strict=True)
        ]

    def _refresh(self) -> None:
        """A new model, and runs that have ended since; what fails is said once, and survived."""
        path = self._state_dir / "history.db"
        file = file_id(path)
        if file != self._file:  # another history: what was remembered of the old one is no more
            self._lengths, self._means, self._file = None, _Means(), file
            self.siblings, self._heard_of = SubmissionBatches(), 0
        try:
            self._lengths = load_predictor(self._state_dir / "models", self._lengths)
        except ModelError as error:
            self._say(f"{error}; run times stay as they are known")
        if file is None:
            return
        try:
            with open_history(path, busy_timeout_ms=self._busy_ms, read_only=True) as history:
                self._read(history)
        except HistoryError as error:
            self._say(f"{error}; run times stay as they are known")

    def _read(self, history: History) -> None:
        if self._lengths is not None:
            self._lengths.take(self._heard(_newer(history, self._lengths.last_id)))
        else:
            for row in self._heard(_newer(history, self._means.last_id)):
                self._means.take(row)

    def _heard(self, rows: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
        """Yield the rows; each is passed to the siblings once, however often it is read."""
        newest = self._heard_of
        for row in rows:
            lasted, submit_s = runtime_s(row), row["submit_s"]
            if row["id"] > self._heard_of and lasted is not None and submit_s is not None:
                self.siblings.ended(row["job_id"], _alike(row), submit_s, lasted)
            newest = max(newest, row["id"])
            yield row
        self._heard_of = newest

    def _say(self, text: str) -> None:
        if text != self._said:
            log.warning("%s", text)
            self._said = text


class StickyEstimates:
    """Run times as first predicted for a job, changed only by its siblings.

    New predictions each round would drift: short jobs end first, so that what has ended looks
    shorter and shorter, and jobs change places for no reason of their own. Only a time limit is
    replaced by something better. Running siblings count with their age, so they do not drift.
    """

    def __init__(self, times: RuntimeEstimates) -> None:
        self._times = times
        self._first: dict[int, RuntimeEstimate] = {}

    def see(self, jobs: Iterable[JobInfo]) -> None:
        """Note all jobs of Slurm: start times of running ones; forget those that are gone."""
        there = [job for job in jobs if not job.ended]
        units = {unit_of(job) for job in there}
        self._first = {unit: first for unit, first in self._first.items() if unit in units}
        siblings = self._times.siblings
        siblings.forget(units | {job.job_id for job in there})
        for job in there:
            if job.state == "RUNNING" and None not in (job.submit_time_s, job.start_time_s):
                since = float(job.submit_time_s or 0), float(job.start_time_s or 0)
                siblings.started(job.job_id, _like(job), *since)

    def of(self, jobs: Sequence[JobInfo], now_s: float) -> list[RuntimeEstimate]:
        """One for each; an array's is that of its first task."""
        new = [job for job in jobs if self._is_open(unit_of(job))]
        estimates = self._times.of(new, now_s)
        self._first |= {unit_of(job): first for job, first in zip(new, estimates, strict=True)}
        for job in jobs:
            unit, submit_s = unit_of(job), float(job.submit_time_s or 0)
            first_s = self._first[unit].seconds
            self._times.siblings.submitted(unit, _like(job), submit_s, first_s)
        return [self._since(job, now_s) for job in jobs]

    def _since(self, job: JobInfo, now_s: float) -> RuntimeEstimate:
        """Never beyond its limit."""
        seconds, is_known = self._times.siblings.predict(unit_of(job), now_s)
        if not is_known:
            return self._first[unit_of(job)]
        return RuntimeEstimate(seconds=min(seconds, _limit_s(job)), by="siblings")

    def _is_open(self, unit: int) -> bool:
        return unit not in self._first or self._first[unit].by == "limit"


class _Means:
    """Mean run time by user, job name and number of GPUs."""

    def __init__(self) -> None:
        self.last_id = 0
        self._sums: dict[tuple[Any, ...], tuple[float, int]] = {}

    def take(self, row: Mapping[str, Any]) -> None:
        """One ended job."""
        self.last_id = max(self.last_id, row["id"])
        lasted = runtime_s(row)
        if lasted is not None:
            total, count = self._sums.get(_alike(row), (0.0, 0))
            self._sums[_alike(row)] = (total + lasted, count + 1)

    def of(self, job: JobInfo) -> RuntimeEstimate | None:
        """The mean of its like, not beyond its limit; None: none has run."""
        total = self._sums.get(_like(job))
        if total is None:
            return None
        return RuntimeEstimate(seconds=min(total[0] / total[1], _limit_s(job)), by="runs")


def _like(job: JobInfo) -> tuple[Any, ...]:
    """Key of similar runs, for a waiting job (`_alike` for a record)."""
    return (job.user_name, job.name, job.devices_per_node)


def _alike(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return (row["user"], row["job_name"], row["gpus"] or 0)


def duration_query(job: JobInfo, now_s: float) -> DurationQuery:
    """Query of the duration model; `now_s` stands for an unknown submission time."""
    limit = job.time_limit_minutes
    return DurationQuery(
        submit_s=now_s if job.submit_time_s is None else job.submit_time_s,
        user=job.user_name,
        job_name=job.name,
        account=job.account,
        partition=job.partition,
        cpus=job.cpus,
        num_nodes=job.node_count,
        gpus=job.devices_per_node,
        mem_bytes=None if job.mem_mib is None else job.mem_mib * 1024.0 * 1024.0,
        time_limit_s=None if limit is None else limit * 60.0,
    )


def _newer(history: History, last_id: int) -> Any:
    return finished_since(history, last_id) if last_id else newest_finished(history, MOST_RUNS)


def _limit(job: JobInfo) -> RuntimeEstimate:
    return RuntimeEstimate(seconds=_limit_s(job), by="limit")


def _limit_s(job: JobInfo) -> float:
    return NO_LIMIT_S if job.time_limit_minutes is None else job.time_limit_minutes * 60.0
