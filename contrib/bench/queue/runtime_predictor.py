"""Run times predicted inside a replay, from jobs that have ended in that same replay.

The model is trained once, on jobs that had ended before the first replayed job. The trace has no
start times, so earlier jobs are taken to end their run time after their submission. From then on
the history grows by jobs that end in the replay, and jobs submitted together correct the
predictions of those that wait (model/duration/submission_batch.py), both as in the live queue.
"""

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from contrib.bench.common.arrays import Array
from contrib.bench.duration.replay import Trace as DurationTrace
from contrib.bench.duration.tables import Job, Table
from slurm_ext.model.duration.model import DurationModel
from slurm_ext.model.duration.state import DurationState
from slurm_ext.model.duration.submission_batch import SubmissionBatches
from slurm_ext.training.duration.fit import FinishedJob, features, fit

LOOK_S = 900.0  # between two looks at the ages of running siblings


@dataclass(frozen=True, eq=False, slots=True)
class TrainedPredictor:
    """Model and history before the first job of a replay; `before_s`: estimates made outside it."""

    table: Table
    model: DurationModel
    state: DurationState
    jobs: Sequence[Job]  # those to be replayed
    before_s: Array  # of each, by what ended in the trace by its submission
    still_running: int  # jobs that are left out: they ran when the trace was cut


def learn(table: Table, past: DurationTrace, rounds: int) -> TrainedPredictor:
    """Raises ModelError where too few jobs had ended."""
    rows = features(table.plan, [_past(job) for job in past.jobs], ended_only=True)
    known = past.end_s <= past.cut_s
    later = past.asked  # of a job that ran when the trace was cut only its age is known
    model = fit(table.plan, rows[known], past.log_s[known], rounds=rounds)
    state = DurationState(table.plan)
    for place in sorted(np.flatnonzero(known).tolist(), key=lambda place: past.end_s[place]):
        job = past.jobs[place]
        state.lived(job.asked, job.end_s, job.duration_s)
    jobs = [past.jobs[place] for place in np.flatnonzero(later).tolist()]
    estimates = np.exp(model.middle(rows[later]))
    left_out = int(((past.submit_s >= past.cut_s) & ~past.asked).sum())
    return TrainedPredictor(table, model, state, jobs, estimates, left_out)


def _past(job: Job) -> FinishedJob:
    return FinishedJob(job.asked, None if job.censored else job.end_s, job.duration_s)


class ReplayPredictor:
    """The predictor of one replay (simulate/queue/waiting_order.py); `kept`: the jobs in it."""

    def __init__(
        self, trained: TrainedPredictor, kept: Sequence[str], *, siblings: bool = True
    ) -> None:
        """With `siblings` False, the prediction made at submission stays."""
        names = set(kept)
        self._trained, self._siblings = trained, SubmissionBatches() if siblings else None
        self._state = copy.deepcopy(trained.state)
        self._jobs = [job for job in trained.jobs if job.job in names]
        self._from_s = self._jobs[0].asked.submit_s
        self._looked_s = -LOOK_S
        self.submission_s = np.full(len(self._jobs), np.nan)  # at submission
        self.start_s = np.full(len(self._jobs), np.nan)  # at the start

    def submitted(self, jobs: Sequence[int], now_s: float) -> Sequence[float]:
        """Predict the run times of jobs that are submitted now, in seconds."""
        rows = np.array([self._state.row(self._jobs[place].asked) for place in jobs])
        self.submission_s[jobs] = self.start_s[jobs] = np.exp(self._trained.model.middle(rows))
        if self._siblings is None:
            return [float(self.submission_s[place]) for place in jobs]
        for place in jobs:
            self._siblings.submitted(
                place, self._key(place), now_s, float(self.submission_s[place])
            )
        return [self._siblings.predict(place, now_s)[0] for place in jobs]

    def started(self, job: int, now_s: float) -> None:
        """Keep the prediction at the job's start; its batch may use its age from now on."""
        if self._siblings is not None:
            self.start_s[job] = self._siblings.predict(job, now_s)[0]
            self._siblings.started(job, self._key(job), self._submit_s(job), now_s)

    def ended(self, job: int, now_s: float) -> None:
        """Learn from the ended job."""
        finished = self._jobs[job]
        self._state.lived(finished.asked, self._from_s + now_s, finished.duration_s)
        if self._siblings is not None:
            self._siblings.ended(job, self._key(job), self._submit_s(job), finished.duration_s)

    def revised(self, now_s: float) -> Iterator[tuple[int, float]]:
        """Yield (job, seconds) of waiting jobs whose prediction has changed."""
        if self._siblings is None:
            return
        ages = now_s - self._looked_s >= LOOK_S
        self._looked_s = now_s if ages else self._looked_s
        for job, submission_s in self._siblings.changed(now_s, ages=ages):
            yield cast("int", job), submission_s

    def _submit_s(self, job: int) -> float:
        return float(self._jobs[job].asked.submit_s - self._from_s)

    def _key(self, job: int) -> tuple[str, ...]:
        names = self._jobs[job].asked.names
        return tuple(names[name] for name in self._trained.table.plan.levels[0])
