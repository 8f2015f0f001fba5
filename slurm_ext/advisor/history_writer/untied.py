"""Decisions of the ledger that no job is tied to yet, and the jobs that they can mean. Pure."""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from operator import itemgetter
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
    known = _by_owner([job for job in jobs if not job.restarts])
    matches = {}
    for proposal in waiting:
        times, job_ids = known.get((proposal.uid, proposal.job_name), ([], []))
        first = bisect_left(times, proposal.decided_s - EARLY_S)
        last = bisect_right(times, proposal.decided_s + LATE_S)
        matches[proposal.token] = job_ids[first:last]
    return matches


def requeued(waiting: Sequence[UntiedDecision], jobs: Sequence[JobInfo]) -> list[str]:
    """Tokens that may have become jobs before Slurm requeued them.

    Their submit time is that of the requeue: only their own records tell.
    """
    known = _by_owner([job for job in jobs if job.restarts])
    latest = {owner: times[-1] for owner, (times, _) in known.items()}
    return [
        proposal.token
        for proposal in waiting
        if proposal.decided_s - EARLY_S <= latest.get((proposal.uid, proposal.job_name), -inf)
    ]


def _by_owner(jobs: Sequence[JobInfo]) -> dict[tuple[int, str], tuple[list[int], list[int]]]:
    """Submit times and ids of each user's jobs of a name, by time: a sweep has thousands of them.

    A job that opted out came of no proposal, and no node speaks of it: it is none of them.
    """
    known: dict[tuple[int, str], tuple[list[int], list[int]]] = {}
    timed = [(job.submit_time_s, job) for job in jobs if job.submit_time_s is not None]
    for submit_s, job in sorted(timed, key=itemgetter(0)):
        single = job.array_job_id is None and job.het_job_id is None
        if single and OPT_OUT not in words_of(job):
            times, job_ids = known.setdefault((job.user_id, job.name), ([], []))
            times.append(submit_s)
            job_ids.append(job.job_id)
    return known


def certain(matches: Mapping[str, Sequence[int]]) -> dict[str, int]:
    """Token to job where each can only mean the other."""
    meant = Counter(job for jobs in matches.values() for job in jobs)
    return {
        token: jobs[0] for token, jobs in matches.items() if len(jobs) == 1 and meant[jobs[0]] == 1
    }
