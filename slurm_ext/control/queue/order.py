"""Order of waiting jobs by the policy: the same function as in the replay."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from slurm_ext.control.queue.jobs import Waiting
from slurm_ext.control.queue.runtime_estimates import (
    RuntimeEstimate,
    RuntimeEstimates,
    StickyEstimates,
)
from slurm_ext.policy.queue.order import QueuedJobs, rule_of


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRank:
    """One waiting job in its order."""

    waiting: Waiting
    length: RuntimeEstimate
    place: int  # 1: goes first of its group
    ahead: Waiting | None  # who goes right before it

    @property
    def need(self) -> float:
        """GPU-seconds, or CPU-seconds, that it is predicted to need."""
        return self.length.seconds * self.waiting.size

    @property
    def said(self) -> str:
        """The same for people: 40 GPU-minutes, 12 CPU-hours."""
        return need_in_words(self.need, gpus=self.waiting.group[2])


def in_order(
    jobs: Sequence[Waiting], rule: str, times: RuntimeEstimates | StickyEstimates, now_s: float
) -> list[QueueRank]:
    """Return the jobs in the order of `rule` (policy/queue/order.py)."""
    lengths = times.of([one.info for one in jobs], now_s)
    asked = QueuedJobs(
        submit_s=np.array([one.info.submit_time_s or 0 for one in jobs], dtype=float),
        gpus=np.array([one.size for one in jobs]),
        estimate_s=np.array([length.seconds for length in lengths]),
    )
    order = rule_of(rule).order(asked, np.array([one.job_id for one in jobs]))
    before = [None, *(jobs[number] for number in order)]
    return [
        QueueRank(waiting=jobs[number], length=lengths[number], place=place, ahead=ahead)
        for place, (number, ahead) in enumerate(zip(order, before, strict=False), 1)
    ]


def need_in_words(need_s: float, *, gpus: bool) -> str:
    """GPU- or CPU-seconds for people."""
    kind = "GPU" if gpus else "CPU"
    hours = need_s >= 2 * 3600
    return f"{need_s / (3600 if hours else 60):.4g} {kind}-{'hours' if hours else 'minutes'}"


def row(one: QueueRank, nice: int | None) -> dict[str, Any]:
    """One job's place: JSON; times in s, `need` in GPU- or CPU-seconds."""
    info = one.waiting.info
    return {
        "job": one.waiting.subject,
        "user": info.user_name,
        "name": info.name,
        "place": one.place,
        "priority": one.waiting.priority,
        "nice": info.nice,
        "wanted_nice": info.nice if nice is None else nice,
        "need": round(one.need, 1),
        "length_s": round(one.length.seconds, 1),
        "low_s": one.length.low_s,
        "high_s": one.length.high_s,
        "by": one.length.by,
        "submit_s": info.submit_time_s,
    }
