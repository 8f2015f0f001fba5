"""All that a policy may know of waiting jobs: the trace's columns, but for what only the end tells.

`WaitingJobs` has them for many jobs at once, `Job` for one that is submitted, starts or ends.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slurm_ext.policy.queue.order import Floats, QueuedJobs
from slurm_ext.simulate.trace.columns import Column, Trace

Names = NDArray[np.object_]


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingJobs(QueuedJobs):
    """Columns of one length, and what time it is; names are strings, empty where unknown."""

    job: Names
    user: Names
    account: Names
    vc: Names  # virtual cluster: the partition
    gpu_type: Names  # empty: any
    qos: Names
    cpus: NDArray[np.int64]  # 0: unknown
    limit_s: Floats  # NaN: none
    more: Mapping[str, Names]  # whatever else the file has, as text
    now_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One job, with the units of WaitingJobs. `number` counts by submission."""

    number: int
    job: str
    user: str
    account: str
    vc: str
    gpu_type: str
    qos: str
    submit_s: float
    gpus: int
    cpus: int
    limit_s: float
    more: Mapping[str, str]


class Portraits:
    """The columns of a replay's jobs, by number."""

    def __init__(self, trace: Trace, order: Column, queued: QueuedJobs) -> None:
        """`order`: of the trace's jobs by number; `queued`: times, GPUs and estimates, so ordered.

        Estimates are looked up when asked for: predictions change them.
        """
        self._queued = queued
        self._columns: dict[str, Any] = {
            "job": np.array(trace.job, dtype=object)[order],
            "user": np.array(trace.users, dtype=object)[trace.user[order]],
            "account": np.array(trace.accounts, dtype=object)[trace.account[order]],
            "vc": np.array(trace.vcs, dtype=object)[trace.vc[order]],
            "gpu_type": np.array(trace.gpu_types, dtype=object)[trace.gpu_type[order]],
            "qos": np.array(trace.qoses, dtype=object)[trace.qos[order]],
            "cpus": trace.cpus[order],
            "limit_s": trace.limit_s[order],
        }
        self._more: dict[str, Names] = {name: texts[order] for name, texts in trace.more.items()}

    @property
    def users(self) -> list[tuple[str, str]]:
        """Each (account, user) once, in order."""
        return sorted({*zip(self._columns["account"], self._columns["user"], strict=True)})

    def some(self, numbers: Column, now_s: float) -> WaitingJobs:
        """Some jobs, as they are known at a time."""
        queued = self._queued
        return WaitingJobs(
            submit_s=queued.submit_s[numbers],
            gpus=queued.gpus[numbers],
            estimate_s=queued.estimate_s[numbers],
            now_s=now_s,
            more={name: texts[numbers] for name, texts in self._more.items()},
            **{name: column[numbers] for name, column in self._columns.items()},
        )

    def one(self, number: int) -> Job:
        """One job."""
        values = {
            name: column[number] if column.dtype == object else column[number].item()
            for name, column in self._columns.items()
        }
        return Job(
            number=number,
            submit_s=float(self._queued.submit_s[number]),
            gpus=int(self._queued.gpus[number]),
            more={name: texts[number] for name, texts in self._more.items()},
            **values,
        )
