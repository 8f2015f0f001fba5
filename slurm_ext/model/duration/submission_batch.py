"""Run times of waiting jobs, corrected by the jobs that were submitted together with them.

Users submit in batches: sweeps, arrays, loops around sbatch. In the Philly trace logs of run times
differ by a variance of 3.1 in all, by 0.45 among jobs of one virtual cluster and size that came at
most GAP_S after each other. So the prediction at submission is a prior, N(predicted, BETWEEN), and
each sibling that ended is an observation of the batch's own mean with variance WITHIN. A running
sibling counts with its expected run time, given its age (EM for a censored normal): ends alone
would come from short siblings first, and make the batch look short.

The replay and the live queue share this code.
"""

from collections import OrderedDict, deque
from collections.abc import Hashable, Iterator, Set
from dataclasses import dataclass, field
from math import erfc, exp, log, pi, sqrt

GAP_S = 120.0
BETWEEN, WITHIN = 2.0, 0.5  # variances of natural logs
MOVES = 0.2  # log: a smaller change is not reported, a queue that changes for nothing confuses
MOST_RUNNING = 16  # of a batch, the longest running: more change hardly anything
MOST_KEYS, MOST_BATCHES = 2048, 16  # kept; of a key, the latest
_STEPS = 4  # of EM: the mean moves by less than 0.01 after it
_TOO_YOUNG = 3.0  # standard deviations: the age of so young a job carries no information


@dataclass(eq=False, slots=True)
class _Batch:
    """Jobs submitted together. Times in s, natural logs of s; `waiting`: first predictions."""

    first_s: float
    last_s: float
    ended: int = 0
    total: float = 0.0  # of their logs
    predicted: float = 0.0  # sum of the logs of all first predictions
    predictions: int = 0
    running: dict[Hashable, float] = field(default_factory=dict)  # since when
    waiting: dict[Hashable, float] = field(default_factory=dict)

    def correction(self, now_s: float) -> tuple[float, float, bool]:
        """Return (a, b, known): a + b x the first log prediction is the corrected one.

        b is 1 while nothing is known, and falls as more is: a job differs less from its batch.
        """
        mean, count = self._known(now_s)
        weight = 1 / (1 + count * BETWEEN / WITHIN)
        return mean - weight * self.predicted / max(1, self.predictions), weight, count > 0

    def _known(self, now_s: float) -> tuple[float, float]:
        """Mean of its logs, and the number of ended jobs that it is worth."""
        prior = self.predicted / max(1, self.predictions)
        weight = 1 / BETWEEN + self.ended / WITHIN
        mean = (prior / BETWEEN + self.total / WITHIN) / weight
        longest = sorted(self.running.values())[:MOST_RUNNING]
        ages = [log(max(1.0, now_s - at)) for at in longest]
        if not ages:
            return mean, self.ended
        spread = sqrt(WITHIN + 1 / weight)
        weight += len(ages) / WITHIN
        for _ in range(_STEPS):
            rest = sum(_come_to(age, mean, spread) for age in ages)
            mean = (prior / BETWEEN + (self.total + rest) / WITHIN) / weight
        return mean, self.ended + len(ages) / 2


class SubmissionBatches:
    """Batches by key (user, name, size), fed with submissions, starts and ends."""

    def __init__(self) -> None:
        self._keys: OrderedDict[Hashable, deque[_Batch]] = OrderedDict()
        self._of: dict[Hashable, _Batch] = {}
        self._reported: dict[Hashable, float] = {}
        self._changed: dict[int, _Batch] = {}

    def submitted(self, job: Hashable, key: Hashable, submit_s: float, predicted_s: float) -> None:
        """Add a waiting job with its prediction, or replace the prediction of one that waits."""
        batch = self._of.get(job) or self._batch(key, submit_s)
        self._of[job] = batch
        log_s = log(max(1.0, predicted_s))
        batch.running.pop(job, None)  # requeued
        before = batch.waiting.get(job)
        batch.predictions += before is None
        batch.predicted += log_s - (before or 0.0)
        batch.waiting[job] = log_s
        if before != log_s:
            self._reported.pop(job, None)
        if before is None and batch.ended:  # the corrections of the others change with it
            self._changed[id(batch)] = batch

    def started(self, job: Hashable, key: Hashable, submit_s: float, start_s: float) -> None:
        """Record a start, also of a job that was not seen waiting."""
        batch = self._of.get(job) or self._batch(key, submit_s)
        self._of[job] = batch
        batch.waiting.pop(job, None)
        batch.running[job] = start_s
        self._reported.pop(job, None)

    def ended(self, job: Hashable, key: Hashable, submit_s: float, runtime_s: float) -> None:
        """Record an end, also of a job that was not seen before."""
        batch = self._of.get(job) or self._batch(key, submit_s)
        batch.ended += 1
        batch.total += log(max(1.0, runtime_s))
        if batch.running.pop(job, None) is not None:
            del self._of[job]
        if batch.waiting:
            self._changed[id(batch)] = batch

    def forget(self, alive: Set[Hashable]) -> None:
        """Drop jobs that are not `alive` and whose run time stayed unknown."""
        for job in [job for job in self._of if job not in alive]:
            batch = self._of.pop(job)
            batch.waiting.pop(job, None)
            batch.running.pop(job, None)
            self._reported.pop(job, None)

    def predict(self, job: Hashable, now_s: float) -> tuple[float, bool]:
        """Predicted seconds of a waiting job, and True if they rest on its siblings."""
        batch = self._of[job]
        mean, weight, is_known = batch.correction(now_s)
        self._moved(job, mean + weight * batch.waiting[job])
        return self._seconds(job), is_known

    def changed(self, now_s: float, *, ages: bool) -> Iterator[tuple[Hashable, float]]:
        """Yield waiting jobs whose prediction changed since the last call, with the seconds.

        `ages`: also look at jobs with running siblings, not only after one has ended.
        """
        if ages:
            batches = {id(batch): batch for batch in self._of.values() if batch.running}
            self._changed |= {at: batch for at, batch in batches.items() if batch.waiting}
        for batch in self._changed.values():
            mean, weight, _ = batch.correction(now_s)
            for job, first in batch.waiting.items():
                if self._moved(job, mean + weight * first):
                    yield job, self._seconds(job)
        self._changed.clear()

    def _moved(self, job: Hashable, log_s: float) -> bool:
        """Keep a prediction that moved by more than MOVES; True if it did."""
        before = self._reported.get(job)
        if before is not None and -MOVES <= log_s - before <= MOVES:
            return False
        self._reported[job] = log_s
        return True

    def _seconds(self, job: Hashable) -> float:
        return round(exp(self._reported[job]), 3)  # equal predictions stay equal through logs

    def _batch(self, key: Hashable, submit_s: float) -> _Batch:
        """Return the batch of this key submitted within GAP_S, or a new one."""
        batches = self._keys.setdefault(key, deque(maxlen=MOST_BATCHES))
        self._keys.move_to_end(key)
        if len(self._keys) > MOST_KEYS:
            self._keys.popitem(last=False)
        for batch in reversed(batches):
            if batch.first_s - GAP_S <= submit_s <= batch.last_s + GAP_S:
                batch.first_s = min(batch.first_s, submit_s)
                batch.last_s = max(batch.last_s, submit_s)
                return batch
        batches.append(_Batch(submit_s, submit_s))
        return batches[-1]


def _come_to(age: float, mean: float, spread: float) -> float:
    """Expected log of a normal that is beyond `age` (mean + spread x inverse Mills ratio)."""
    at = (age - mean) / spread
    if at < -_TOO_YOUNG:
        return mean
    if at > 6.0:  # both parts of the ratio vanish
        return mean + spread * (at + 1 / at)
    return mean + spread * exp(-at * at / 2) / sqrt(2 * pi) / (erfc(at / sqrt(2)) / 2)
