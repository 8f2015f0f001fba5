"""Corrects accounting's starts by slurmctld's log.

Measured on 22.05: a job that began, was requeued after six seconds and ran to its end, under a
slurmctld that was stopped and started twice meanwhile, is one run in `sacct -D`. So is one that
began anew in the second in which Slurm gave up on its node. And one that a node refused to launch,
as it still ended the run before, is one that failed there.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from contrib.bench.campaign.accounting import Ran
from contrib.bench.campaign.records import Recorded
from slurm_ext.slurm.hostlist import expand

_BEGUN = re.compile(
    r"(?:Allocate|Started) JobId=(\d+)(?:[_+]\d+\((\d+)\))? (?:NodeList=|in \S+ on )(\S+)"
)
_ENDED = re.compile(  # signal 126: slurmctld found the job missing
    r"_job_complete: JobId=(\d+)(?:[_+]\d+\((\d+)\))? "
    r"(?:(WEXITSTATUS 0|OOM failure|cancelled by interactive user)$|WEXITSTATUS|WTERMSIG (?!126$))",
    re.MULTILINE,
)
_EXITED = re.compile(r"_job_complete: JobId=(\d+)(?:[_+]\d+\((\d+)\))? WEXITSTATUS")
_CANCELLED = re.compile(r"REQUEST_KILL_JOB JobId=(\d+) ")
_STATES = {
    "": "FAILED",
    "WEXITSTATUS 0": "COMPLETED",
    "OOM failure": "OUT_OF_MEMORY",
    "cancelled by interactive user": "CANCELLED",
}
_UNLAUNCHED = re.compile(r"Killing non-startable batch JobId=(\d+)")


def with_forgotten(ran: Iterable[Ran], rows: Iterable[Recorded], log: str) -> list[Ran]:
    """Accounting's starts, and earlier ones that slurmctld's log and records both have."""
    begun, restarts, found = _begun(log), _restarts(rows), list[Ran]()
    never = _never_launched(log)
    starts: dict[int, list[Ran]] = {}
    for run in ran:
        if (run.job_id, run.start) not in never:
            told = starts.setdefault(run.job_id, [])
            told.append(replace(run, start=len(told)))
    for job_id, told in starts.items():
        records = len(restarts.get(job_id, ()))
        more = records - len(told) if records <= len(begun.get(job_id, ())) else 0
        found += [_forgotten(told[0], n, begun[job_id][n]) for n in range(more)]
        found += [replace(run, start=run.start + max(0, more)) for run in told]
    return found


def ends(log: str) -> dict[int, set[str]]:
    """Each job's ends in slurmctld's log, but for those of jobs that it found missing."""
    ended = {int(job): {"CANCELLED"} for job in _CANCELLED.findall(log)}
    for job, part, words in _ENDED.findall(log):
        ended.setdefault(int(part or job), set()).add(_STATES[words])
    return ended


def all_ended_by_themselves(ran: Iterable[Ran], log: str) -> set[int]:
    """Jobs whose every start exited: what was requeued as its epilog ran had ended before."""
    starts, exits = Counter(run.job_id for run in ran), Counter[int]()
    exits.update(int(part or job) for job, part in _EXITED.findall(log))
    return {job_id for job_id, count in starts.items() if exits[job_id] >= count}


def _forgotten(one: Ran, start: int, nodes: Sequence[str]) -> Ran:
    return replace(one, start=start, nodes=tuple(nodes), state="REQUEUED")


def _begun(log: str) -> dict[int, list[Sequence[str]]]:
    """The nodes of each start in slurmctld's log, by job."""
    begun: dict[int, list[Sequence[str]]] = {}
    for job, part, nodes in _BEGUN.findall(log):
        begun.setdefault(int(part or job), []).append(expand(nodes))
    return begun


def _never_launched(log: str) -> set[tuple[int, int]]:
    """Job and number of each start that no node launched."""
    return {
        (int(found[1]), len(_begun(log[: found.start()]).get(int(found[1]), ())) - 1)
        for found in _UNLAUNCHED.finditer(log)
    }


def _restarts(rows: Iterable[Recorded]) -> dict[int, set[int]]:
    restarts: dict[int, set[int]] = {}
    for row in rows:
        restarts.setdefault(row.job_id, set()).add(row.restart)
    return restarts
