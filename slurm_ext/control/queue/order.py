"""Order of waiting jobs by the policy: the same function as in the replay."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from slurm_ext.control.queue.jobs import Group, Waiting
from slurm_ext.control.queue.runtime_estimates import (
    RuntimeEstimate,
    RuntimeEstimates,
    StickyEstimates,
)
from slurm_ext.policy.queue.ageing import LongestWait
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
    def need_text(self) -> str:
        """The need as text: 40 GPU-minutes, 12 CPU-hours."""
        return need_in_words(self.need, gpus=self.waiting.group[2])


def in_order(
    jobs: Sequence[Waiting],
    rule: str,
    times: RuntimeEstimates | StickyEstimates,
    now_s: float,
    longest: LongestWait,
) -> list[QueueRank]:
    """Return the jobs in the order of `rule` (policy/queue/order.py)."""
    lengths = times.of([job.info for job in jobs], now_s)
    query = QueuedJobs(
        submit_s=np.array([job.since_s or 0 for job in jobs], dtype=float),
        gpus=np.array([job.size for job in jobs]),
        estimate_s=np.array([length.seconds for length in lengths]),
    )
    ties = np.array([job.job_id for job in jobs])
    order = rule_of(rule).order(query, ties, lead_s=longest.lead_s(now_s))
    before = [None, *(jobs[number] for number in order)]
    return [
        QueueRank(waiting=jobs[number], length=lengths[number], place=place, ahead=ahead)
        for place, (number, ahead) in enumerate(zip(order, before, strict=False), 1)
    ]


def longest_wait(
    before: LongestWait, groups: Mapping[Group, Sequence[Waiting]], now_s: float
) -> LongestWait:
    """Return the longest wait after a look at all queues."""
    waiting = [job.since_s for jobs in groups.values() for job in jobs]
    first_s = min((since_s for since_s in waiting if since_s is not None), default=now_s)
    return before.seen(now_s - first_s, now_s)


def need_in_words(need_s: float, *, gpus: bool) -> str:
    """GPU- or CPU-seconds for people."""
    kind = "GPU" if gpus else "CPU"
    hours = need_s >= 2 * 3600
    return f"{need_s / (3600 if hours else 60):.4g} {kind}-{'hours' if hours else 'minutes'}"


def row(rank: QueueRank, nice: int | None) -> dict[str, Any]:
    """One job's place: JSON; times in s, `need` in GPU- or CPU-seconds."""
    info = rank.waiting.info
    return {
        "job": rank.waiting.subject,
        "user": info.user_name,
        "name": info.name,
        "place": rank.place,
        "priority": rank.waiting.priority,
        "nice": info.nice,
        "wanted_nice": info.nice if nice is None else nice,
        "need": round(rank.need, 1),
        "length_s": round(rank.length.seconds, 1),
        "low_s": rank.length.low_s,
        "high_s": rank.length.high_s,
        "by": rank.length.by,
        "submit_s": info.submit_time_s,
    }
