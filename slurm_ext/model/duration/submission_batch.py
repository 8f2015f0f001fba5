"""What jobs submitted together tell of each other while some of them still wait.

Users submit in batches: sweeps, arrays, loops around sbatch. In the Philly trace logs of run times
differ by a variance of 3.1 in all, by 0.45 among jobs of one virtual cluster and size that came at
most GAP_S after each other. So what a job was foretold at its submission is a prior, N(foretold,
BETWEEN), and each sibling that ended is an observation of the batch's own mean with variance
WITHIN. One that runs still counts as what it may come to, given its age (EM for a censored normal):
waiting for ends alone would hear of short siblings first, and take the batch for a short one.

Pure but for what it remembers; the replay and the live queue ask the same code.
"""

from collections import OrderedDict, deque
from collections.abc import Hashable, Iterator, Set
from dataclasses import dataclass, field
from math import erfc, exp, log, pi, sqrt

GAP_S = 120.0
BETWEEN, WITHIN = 2.0, 0.5  # variances of natural logs
MOVES = 0.2  # log: less is no news, and a queue that changes for nothing is hard to explain
MOST_RUNNING = 16  # of a batch, who runs longest: more tell hardly more
MOST_KEYS, MOST_BATCHES = 2048, 16  # remembered; of a key, the last
_STEPS = 4  # of EM: the mean moves by less than 0.01 after it
_UNTOLD = 3.0  # standard deviations: a job so young has told nothing


@dataclass(eq=False, slots=True)
class _Batch:
    """Times in s, logs natural, of seconds. `waiting`: what each was foretold at first."""

    first_s: float
    last_s: float
    ended: int = 0
    total: float = 0.0  # of their logs
    foretold: float = 0.0  # sum of all that were
    asked: int = 0
    running: dict[Hashable, float] = field(default_factory=dict)  # since when
    waiting: dict[Hashable, float] = field(default_factory=dict)

    def apart(self, now_s: float) -> tuple[float, float, bool]:
        """(a, b, known): a + b x what a job was foretold is its log; b is 1 while nothing is known.

        What sets a job apart from its batch counts the less the more is known.
        """
        mean, count = self._known(now_s)
        weight = 1 / (1 + count * BETWEEN / WITHIN)
        return mean - weight * self.foretold / max(1, self.asked), weight, count > 0

    def _known(self, now_s: float) -> tuple[float, float]:
        """Mean of its logs, and of how many ended jobs it is worth."""
        prior = self.foretold / max(1, self.asked)
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
    """Batches by key (who, what, how large): fed with submissions, starts and ends."""

    def __init__(self) -> None:
        self._keys: OrderedDict[Hashable, deque[_Batch]] = OrderedDict()
        self._of: dict[Hashable, _Batch] = {}
        self._told: dict[Hashable, float] = {}
        self._stirred: dict[int, _Batch] = {}

    def submitted(self, job: Hashable, key: Hashable, submit_s: float, foretold_s: float) -> None:
        """It waits from now on; one that waits already is foretold anew."""
        batch = self._of.get(job) or self._batch(key, submit_s)
        self._of[job] = batch
        log_s = log(max(1.0, foretold_s))
        batch.running.pop(job, None)  # requeued
        before = batch.waiting.get(job)
        batch.asked += before is None
        batch.foretold += log_s - (before or 0.0)
        batch.waiting[job] = log_s
        if before != log_s:
            self._told.pop(job, None)
        if before is None and batch.ended:  # what sets the others apart is another now
            self._stirred[id(batch)] = batch

    def started(self, job: Hashable, key: Hashable, submit_s: float, start_s: float) -> None:
        """It runs; nobody need have seen it wait."""
        batch = self._of.get(job) or self._batch(key, submit_s)
        self._of[job] = batch
        batch.waiting.pop(job, None)
        batch.running[job] = start_s
        self._told.pop(job, None)

    def ended(self, job: Hashable, key: Hashable, submit_s: float, lasted_s: float) -> None:
        """It ended after so long; nobody need have seen it before."""
        batch = self._of.get(job) or self._batch(key, submit_s)
        batch.ended += 1
        batch.total += log(max(1.0, lasted_s))
        if batch.running.pop(job, None) is not None:
            del self._of[job]
        if batch.waiting:
            self._stirred[id(batch)] = batch

    def forget(self, alive: Set[Hashable]) -> None:
        """Whoever is gone without a word of how long it ran teaches nothing."""
        for job in [job for job in self._of if job not in alive]:
            batch = self._of.pop(job)
            batch.waiting.pop(job, None)
            batch.running.pop(job, None)
            self._told.pop(job, None)

    def predict(self, job: Hashable, now_s: float) -> tuple[float, bool]:
        """Seconds that a waiting job is thought to run, and whether its siblings say so."""
        batch = self._of[job]
        mean, weight, known = batch.apart(now_s)
        self._moved(job, mean + weight * batch.waiting[job])
        return self._seconds(job), known

    def changed(self, now_s: float, *, ages: bool) -> Iterator[tuple[Hashable, float]]:
        """Waiting jobs of whom something else is thought since the last call, and the seconds.

        `ages`: look at all that have running siblings, not only at those of whom one has ended.
        """
        if ages:
            batches = {id(batch): batch for batch in self._of.values() if batch.running}
            self._stirred |= {at: batch for at, batch in batches.items() if batch.waiting}
        for batch in self._stirred.values():
            mean, weight, _ = batch.apart(now_s)
            for job, foretold in batch.waiting.items():
                if self._moved(job, mean + weight * foretold):
                    yield job, self._seconds(job)
        self._stirred.clear()

    def _moved(self, job: Hashable, log_s: float) -> bool:
        """Whether that is news; then it is what is thought from now on."""
        before = self._told.get(job)
        if before is not None and -MOVES <= log_s - before <= MOVES:
            return False
        self._told[job] = log_s
        return True

    def _seconds(self, job: Hashable) -> float:
        return round(exp(self._told[job]), 3)  # ties survive logs, there and back

    def _batch(self, key: Hashable, submit_s: float) -> _Batch:
        """Who came right before or after it, of this key; else it is the first."""
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
    if at < -_UNTOLD:
        return mean
    if at > 6.0:  # both parts of the ratio vanish
        return mean + spread * (at + 1 / at)
    return mean + spread * exp(-at * at / 2) / sqrt(2 * pi) / (erfc(at / sqrt(2)) / 2)
