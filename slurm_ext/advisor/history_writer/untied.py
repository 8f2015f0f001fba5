"""Decisions of the ledger that no job is tied to yet, and the jobs that they can mean. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

from slurm_ext.advisor.history_writer.slurm_record import EARLY_S, LATE_S
from slurm_ext.advisor.limits.eligible import OPT_OUT, words_of
from slurm_ext.slurm import JobInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class UntiedDecision:
    """A ledger entry that no job is tied to yet."""

    token: str
    uid: int
    job_name: str
    decided_s: float


def untied(rows: Sequence[Mapping[str, Any]]) -> list[UntiedDecision]:
    """The part of the ledger's rows that says which job was meant."""
    names = ("token", "uid", "job_name", "decided_s")
    return [UntiedDecision(**{name: row[name] for name in names}) for row in rows]


def candidates(waiting: Sequence[UntiedDecision], jobs: Sequence[JobInfo]) -> dict[str, list[int]]:
    """Ids of the jobs that each token can have become: same user, name and moment."""
    return _matches(waiting, [job for job in jobs if not job.restarts], LATE_S)


def requeued(waiting: Sequence[UntiedDecision], jobs: Sequence[JobInfo]) -> dict[str, list[int]]:
    """Ids of the jobs that each token may have become before Slurm requeued them.

    Their submit time is that of the requeue: only their own records tell.
    """
    return _matches(waiting, [job for job in jobs if job.restarts], inf)


def _matches(
    waiting: Sequence[UntiedDecision], jobs: Sequence[JobInfo], late_s: float
) -> dict[str, list[int]]:
    """Ids of the jobs of each token's user and name, submitted up to `late_s` after it.

    A job that opted out came of no proposal, and no node speaks of it: it is none of them.
    """
    by_owner: dict[tuple[int, str], list[JobInfo]] = {}
    for job in jobs:
        single = job.array_job_id is None and job.het_job_id is None
        if single and OPT_OUT not in words_of(job):
            by_owner.setdefault((job.user_id, job.name), []).append(job)
    return {
        proposal.token: [
            job.job_id
            for job in by_owner.get((proposal.uid, proposal.job_name), ())
            if job.submit_time_s is not None
            and -EARLY_S <= job.submit_time_s - proposal.decided_s <= late_s
        ]
        for proposal in waiting
    }


def certain(matches: Mapping[str, Sequence[int]]) -> dict[str, int]:
    """Token to job where each can only mean the other."""
    meant = Counter(job for jobs in matches.values() for job in jobs)
    return {
        token: jobs[0] for token, jobs in matches.items() if len(jobs) == 1 and meant[jobs[0]] == 1
    }
