"""Starts of jobs that Slurm took back: squeue lists a job's newest start only."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from slurm_ext.slurm import JobInfo


@dataclass(slots=True)
class RequeuedStarts:
    """Remembers each job's start between two listings, and those that another one followed.

    A start that began and ended between two listings is not seen: its node's record tells of it. A
    job that is completing says nothing: requeued, it has the next start's count and time already.
    """

    _latest: dict[int, JobInfo] = field(default_factory=dict)
    _over: dict[tuple[int, int], JobInfo] = field(default_factory=dict)

    def look(self, jobs: Sequence[JobInfo]) -> list[JobInfo]:
        """Starts that ended in a requeue and were not forgotten, at this listing."""
        latest = {}
        for job in jobs:
            before = self._latest.get(job.job_id)
            if job.state == "COMPLETING":  # with the nodes of the start that ends
                if before is not None:
                    latest[job.job_id] = before
                continue
            if before is not None and before.restarts < job.restarts and not before.ended:
                self._over[before.job_id, before.restarts] = _requeued(before, job)
            if job.nodes and job.start_time_s and job.state != "PENDING":
                latest[job.job_id] = job
            elif before is not None and before.restarts == job.restarts:
                latest[job.job_id] = before
        self._latest = latest
        return list(self._over.values())

    def forget(self, job_id: int, restart: int) -> None:
        """Forget a start whose record is made."""
        self._over.pop((job_id, restart), None)


def _requeued(before: JobInfo, after: JobInfo) -> JobInfo:
    """The start with its end: Slurm sets a job's submit time again when it requeues it."""
    ended_s = max(before.start_time_s or 0, after.submit_time_s or 0)
    return replace(before, state="REQUEUED", end_time_s=ended_s, exit_code=None, exit_signal=None)
