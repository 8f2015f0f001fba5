"""Statistics of the log durations of one key's jobs: a user, a user's script, a queue ...

Only what is known at that moment counts: a job once it ended, a running one by its age alone.
 Logs are natural, of seconds, durations below 1 s count as 1 s.
"""

from collections import deque
from collections.abc import Hashable
from math import inf, log, log1p, nan, sqrt

STATISTICS = (
    "ended",  # log1p of how many
    "last",
    "before_last",
    "third_last",
    "fast",  # decayed means, by WEIGHTS
    "middling",
    "slow",
    "spread",  # decayed standard deviation
    "median",  # of the last MEDIAN_OF
    "log_mean",  # log of the decayed mean of seconds, as QSSF has it
    "recent",  # of the last RECENT submitted ones: the duration or, running still, the age
    "running",  # log1p of how many
    "youngest",  # log1p of the age of the newest running one
    "oldest",
    "since_submitted",  # log1p of seconds since the last submission
    "since_ended",
    "burst",  # log1p of how many came before it with gaps of at most GAP_S
)
WEIGHTS = (0.4, 0.1, 0.015)  # of the newest run; of the first ones 1/n
MEDIAN_OF = 15
RECENT = 6
GAP_S = 600.0
NOTHING = (0.0, *(nan,) * 10, 0.0, nan, nan, nan, nan, 0.0)


class RememberedRun:
    """One job of a key; `log_s` is None until it ended."""

    __slots__ = ("log_s", "submit_s")

    def __init__(self, submit_s: float) -> None:
        self.submit_s = submit_s
        self.log_s: float | None = None


class KeyStatistics:
    """Updated with every submission and end, at a cost that does not grow with the history."""

    __slots__ = (
        "_burst",
        "_ended_s",
        "_last",
        "_means",
        "_n",
        "_recent",
        "_running",
        "_seconds",
        "_square",
        "_submitted_s",
    )

    def __init__(self) -> None:
        self._n = 0
        self._means = [0.0] * len(WEIGHTS)
        self._square = 0.0
        self._seconds = 0.0
        self._last: deque[float] = deque(maxlen=MEDIAN_OF)
        self._recent: deque[RememberedRun] = deque(maxlen=RECENT)
        self._running: dict[Hashable, RememberedRun] = {}
        self._submitted_s = self._ended_s = -inf
        self._burst = 0

    def submitted(self, job: Hashable, run: RememberedRun) -> None:
        """Add a submitted job of this key."""
        together = run.submit_s - self._submitted_s <= GAP_S
        self._burst = self._burst + 1 if together else 0
        self._submitted_s = max(self._submitted_s, run.submit_s)
        self._running[job] = run
        self._recent.append(run)

    def gone(self, job: Hashable, end_s: float, log_s: float | None) -> None:
        """Remove a job that ended; with `log_s` None (unknown duration) it is only forgotten."""
        run = self._running.pop(job, None)
        if run is None or log_s is None:
            return
        self._ended_s = max(self._ended_s, end_s)
        self._n += 1
        for slot, weight in enumerate(WEIGHTS):
            self._means[slot] += max(weight, 1 / self._n) * (log_s - self._means[slot])
        middling = max(WEIGHTS[1], 1 / self._n)
        self._square += middling * (log_s * log_s - self._square)
        self._seconds += middling * (2.718281828459045**log_s - self._seconds)
        self._last.append(log_s)

    def row(self, now_s: float) -> tuple[float, ...]:
        """Return the values of STATISTICS; NaN where nothing is known yet."""
        running = self._running
        n, last = self._n, self._last
        ages = (nan, nan)
        if running:
            first, newest = next(iter(running.values())), next(reversed(running.values()))
            ages = (_since(now_s, newest.submit_s), _since(now_s, first.submit_s))
        since = _since(now_s, self._submitted_s) if self._submitted_s > -inf else nan
        if not n:
            values: tuple[float, ...] = (0.0, *(nan,) * 9)
        else:
            spread = sqrt(max(0.0, self._square - self._means[1] ** 2))
            latest = [*reversed(last), nan, nan][:3]
            middle = sorted(last)[len(last) // 2]
            values = (log1p(n), *latest, *self._means, spread, middle, log(self._seconds))
        return (
            *values,
            self._recently(now_s),
            log1p(len(running)),
            *ages,
            since,
            _since(now_s, self._ended_s) if n else nan,
            log1p(self._burst + 1 if now_s - self._submitted_s <= GAP_S else 0),
        )

    def _recently(self, now_s: float) -> float:
        if not self._recent:
            return nan
        return sum(
            log(max(1.0, now_s - run.submit_s)) if run.log_s is None else run.log_s
            for run in self._recent
        ) / len(self._recent)


def _since(now_s: float, then_s: float) -> float:
    """Clocks of nodes differ: what lies ahead is now."""
    return log1p(max(0.0, now_s - then_s))
