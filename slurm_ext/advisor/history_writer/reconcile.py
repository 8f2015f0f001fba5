"""Compares the ledger and the history with what Slurm knows.

* A proposal is tied to its job as soon as there is exactly one that it can mean; the job's own
  record, which carries the token, ties it for certain later.
* A proposal that no job can have come from (`sbatch --test-only`, a rejected job) is dropped.
* A job that ended, or was requeued, and of which a node sent no record (it is gone, its disk is
  full, its epilog was killed) gets one from here; a record that comes later replaces it.
* A job that Slurm ended, but whose node calls it failed or done, gets Slurm's word for its end.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Any

from slurm_ext.advisor.history_writer.ended_jobs import EndedJobs
from slurm_ext.advisor.history_writer.slurm_record import (
    EARLY_S,
    LATE_S,
)
from slurm_ext.advisor.limits.rules import client_of
from slurm_ext.advisor.sharing.gpu_sharers import SharedGpuQueue, shared_gpu_jobs, write
from slurm_ext.core import elastic_requests
from slurm_ext.core.settings.document import Settings
from slurm_ext.history.ingest.decisions import (
    claim,
    decision,
    drop_unclaimed,
    elastic_jobs,
    solo_key_of,
    unclaimed,
)
from slurm_ext.history.store.store import History
from slurm_ext.slurm import JobInfo, SlurmClient

SETTLED_S = 3.0  # a moment whose other proposals have all arrived
SURE_S = 10.0  # a proposal older than this has become a job, or never will
KEEP_DOUBTFUL_S = 86400.0  # where several jobs could be meant, the job's own record decides


@dataclass(frozen=True, slots=True, kw_only=True)
class UntiedDecision:
    """A ledger entry that no job is tied to yet."""

    token: str
    uid: int
    job_name: str
    decided_s: float


def candidates(waiting: Sequence[UntiedDecision], jobs: Sequence[JobInfo]) -> dict[str, list[int]]:
    """Ids of the jobs that each token can have become: same user, name and moment."""
    by_owner: dict[tuple[int, str], list[JobInfo]] = {}
    for job in jobs:
        if job.array_job_id is None and job.het_job_id is None:
            by_owner.setdefault((job.user_id, job.name), []).append(job)
    return {
        one.token: [
            job.job_id
            for job in by_owner.get((one.uid, one.job_name), ())
            if job.submit_time_s is not None
            and -EARLY_S <= job.submit_time_s - one.decided_s <= LATE_S
        ]
        for one in waiting
    }


def certain(found: Mapping[str, Sequence[int]]) -> dict[str, int]:
    """Token to job where each can only mean the other."""
    meant = Counter(job for jobs in found.values() for job in jobs)
    return {
        token: jobs[0] for token, jobs in found.items() if len(jobs) == 1 and meant[jobs[0]] == 1
    }


class Reconciler:
    """One comparison at a time."""

    def __init__(self, settings: Settings, client: SlurmClient | None = None) -> None:
        self._settings = settings
        self._client = client or client_of(settings)
        self._ended = EndedJobs(settings)

    def reconcile(self, history: History, now_s: float) -> None:
        """Compare now. Raises SlurmError, HistoryError, OSError; what is done stays done."""
        jobs = self._client.jobs()
        self._tie(history, jobs, now_s)
        if self._settings["sharing.mode"] != "off":
            self._tell_sharers(history, jobs, now_s)
        if self._settings["elastic.mode"] != "off":
            self._tell_elastic(history, jobs, now_s)
        self._ended.complete(history, jobs, now_s)

    def _tie(self, history: History, jobs: Sequence[JobInfo], now_s: float) -> None:
        """Claim what is certain, drop what became nothing, keep what is doubtful."""
        rows = (decision(history, token=token) for token in unclaimed(history, before_s=now_s))
        waiting = [_proposed(row) for row in rows if row is not None]
        if not waiting:
            return
        found = candidates(waiting, jobs)
        uids = _uids(jobs)
        meant = {job for ids in found.values() for job in ids}
        tied = {job for job in meant if _is_tied(history, job, uids)}
        found = {token: [job for job in meant if job not in tied] for token, meant in found.items()}
        settled = {one.token for one in waiting if one.decided_s <= now_s - SETTLED_S}
        for token, job_id in certain(found).items():
            if token in settled:
                claim(history, token, job_id, uid=uids[job_id], now_s=now_s)
        doubtful = [token for token, meant in found.items() if meant]
        drop_unclaimed(history, before_s=now_s - SURE_S, keep=doubtful)
        drop_unclaimed(history, before_s=now_s - KEEP_DOUBTFUL_S)

    def _tell_sharers(self, history: History, jobs: Sequence[JobInfo], now_s: float) -> None:
        """Let the answering process know who shares GPUs; `now_s` is from before the listing."""
        found = shared_gpu_jobs(jobs)
        maybe = self._maybe(history, jobs, now_s) if found else {}
        uids = _uids(jobs)
        named = [replace(one, key=_named(history, int(one.job), uids, maybe)) for one in found]
        write(self._settings.state_dir, SharedGpuQueue(at_s=now_s, jobs=tuple(named)))

    def _tell_elastic(self, history: History, jobs: Sequence[JobInfo], now_s: float) -> None:
        """Let the elastic loop know whose environment let their size change."""
        alive = {(job.job_id, job.user_id, job.name) for job in jobs if not job.ended}
        tied = {job[0]: said for job, said in elastic_jobs(history).items() if job in alive}
        maybe = self._maybe(history, jobs, now_s, lambda row: row["elastic"])
        found = {job: said for job, (said, *more) in maybe.items() if said and not more}
        uids = _uids(jobs)
        known = {job: said for job, said in found.items() if not _is_tied(history, job, uids)}
        elastic_requests.write(self._settings.state_dir, known | tied)

    def _maybe(
        self,
        history: History,
        jobs: Sequence[JobInfo],
        now_s: float,
        of_row: Callable[[Mapping[str, Any]], str | None] = solo_key_of,
    ) -> dict[int, set[str | None]]:
        """Values of `of_row` that each job not tied yet can mean; a sweep's are all the same."""
        rows = [decision(history, token=token) for token in unclaimed(history, before_s=now_s)]
        names = {row["token"]: of_row(row) for row in rows if row is not None}
        meant = candidates([_proposed(row) for row in rows if row is not None], jobs)
        found: dict[int, set[str | None]] = {}
        for token, job_ids in meant.items():
            for job_id in job_ids:
                found.setdefault(job_id, set()).add(names[token])
        return found


def _uids(jobs: Sequence[JobInfo]) -> dict[int, int]:
    """Owner of each job as Slurm has it: a decision of another user's is none of the job's."""
    return {job.job_id: job.user_id for job in jobs}


def _is_tied(history: History, job_id: int, uids: Mapping[int, int]) -> bool:
    return decision(history, job_id=job_id, uid=uids[job_id]) is not None


def _named(
    history: History,
    job_id: int,
    uids: Mapping[int, int],
    maybe: Mapping[int, AbstractSet[str | None]],
) -> str | None:
    ledger = decision(history, job_id=job_id, uid=uids[job_id])
    if ledger is not None:
        return solo_key_of(ledger)
    names = maybe.get(job_id, set())
    return next(iter(names)) if len(names) == 1 else None


def _proposed(row: Mapping[str, Any]) -> UntiedDecision:
    return UntiedDecision(
        token=row["token"],
        uid=row["uid"],
        job_name=row["job_name"],
        decided_s=row["decided_s"],
    )
