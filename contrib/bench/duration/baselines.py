"""Standard predictors of a duration, all causal: they learn from a job once it has ended.

median: of all ended jobs. requested_time: the wall time that the user asked for. last15: median of
the last 15 of the narrowest key that has any (QSSF's levels). history_mean: mean of the first
level that has any, QSSF's rolling estimator H. lightgbm: plain trees on names, numbers and the
calendar, as QSSF's L, trained as often as ours. qssf_merge: 0.1 H + 0.9 L in seconds
(HeliosArtifact's `a`). history_log, qssf_merge_log: the same of logs, half of each, which R2 of
logs favours; no published rule.
"""

import heapq
from bisect import insort
from collections import defaultdict, deque
from collections.abc import Hashable, Sequence
from math import exp, log
from typing import Any

import numpy as np

from contrib.bench.common.arrays import Array
from contrib.bench.duration.tables import Job, Table

QSSF_WEIGHT = 0.1
LAST = 15
ROLLING = ("history_mean", "history_log", "last15", "median")
PLAIN = {"objective": "l2", "learning_rate": 0.1, "num_leaves": 31, "seed": 0, "verbosity": -1}
PLAIN_ROUNDS = 100


def every(table: Table, jobs: Sequence[Job], cuts: Sequence[float]) -> dict[str, Array]:
    """Seconds that each rule predicts for every job; NaN before the first of `cuts`.

    `cuts` are the moments of training, in s; from each on, the model trained there is asked.
    """
    seconds = _rolling(table, jobs)
    plain = _plain(table, jobs, cuts)
    seconds |= {"lightgbm": plain}
    seconds["qssf_merge"] = QSSF_WEIGHT * seconds["history_mean"] + (1 - QSSF_WEIGHT) * plain
    seconds["qssf_merge_log"] = np.sqrt(seconds["history_log"] * plain)
    if table.requested:
        logs = [job.asked.numbers[table.requested] for job in jobs]
        asked = np.array([np.nan if log is None else log for log in logs], dtype=float)
        seconds["requested_time"] = np.where(np.isnan(asked), seconds["median"], np.exp(asked))
    return seconds


class _Level:
    def __init__(self) -> None:
        self.total = self.logs = 0.0
        self.n = 0
        self.last: deque[float] = deque(maxlen=LAST)

    def took(self, duration_s: float) -> None:
        self.total += duration_s
        self.logs += log(max(1.0, duration_s))
        self.n += 1
        self.last.append(duration_s)


def _rolling(table: Table, jobs: Sequence[Job]) -> dict[str, Array]:
    levels: list[dict[Hashable, _Level]] = [defaultdict(_Level) for _ in table.qssf]
    running: list[tuple[float, int]] = []
    everything: list[float] = []
    seconds = {name: np.full(len(jobs), np.nan) for name in ROLLING}
    for at, job in enumerate(jobs):
        while running and running[0][0] <= job.asked.submit_s:
            _, ended = heapq.heappop(running)
            insort(everything, jobs[ended].duration_s)
            for level, key in zip(levels, _keys(table, jobs[ended]), strict=True):
                level[key].took(jobs[ended].duration_s)
        known = zip(levels, _keys(table, job), strict=True)
        best = next((level[key] for level, key in known if key in level), None)
        if best is not None:
            seconds["history_mean"][at] = best.total / best.n
            seconds["history_log"][at] = exp(best.logs / best.n)
            seconds["last15"][at] = float(np.median(best.last))
            seconds["median"][at] = everything[len(everything) // 2]
        if not job.censored:
            heapq.heappush(running, (job.end_s, at))
    return seconds


def _keys(table: Table, job: Job) -> list[Hashable]:
    return [tuple(job.asked.names[name] for name in level) for level in table.qssf]


def _plain(table: Table, jobs: Sequence[Job], cuts: Sequence[float]) -> Array:
    import lightgbm

    rows = _plain_rows(table, jobs)
    submitted = np.array([job.asked.submit_s for job in jobs])
    ends = np.array([np.inf if job.censored else job.end_s for job in jobs])
    logs = np.log(np.maximum([job.duration_s for job in jobs], 1.0))
    seconds = np.full(len(jobs), np.nan)
    named: dict[str, Any] = {"categorical_feature": list(range(len(table.names)))}
    for cut, until in zip(cuts, (*cuts[1:], np.inf), strict=True):
        asked = (submitted >= cut) & (submitted < until)
        if not asked.any():
            continue
        known = ends <= cut
        data = lightgbm.Dataset(rows[known], logs[known], params={"verbosity": -1}, **named)
        seconds[asked] = np.exp(lightgbm.train(PLAIN, data, PLAIN_ROUNDS).predict(rows[asked]))
    return seconds


def _plain_rows(table: Table, jobs: Sequence[Job]) -> Array:
    """Names as codes, numbers, hour, weekday, day."""
    codes: list[dict[str, int]] = [{} for _ in table.names]
    rows = []
    for job in jobs:
        asked, day = job.asked, job.asked.submit_s // 86400
        named = [
            code.setdefault(asked.names[name], len(code))
            for name, code in zip(table.names, codes, strict=True)
        ]
        numbers = [asked.numbers[name] for name in table.numbers]
        hour = asked.submit_s % 86400 // 3600
        rows.append([*named, *(np.nan if n is None else n for n in numbers), hour, day % 7, day])
    return np.array(rows, dtype=float)
