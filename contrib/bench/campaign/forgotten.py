"""Adds starts that slurmctld made and accounting forgot, as it may when slurmctld is restarted.

Measured on 22.05: a job that began, was requeued after six seconds and ran to its end, under a
slurmctld that was stopped and started twice meanwhile, is one run in `sacct -D`.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from contrib.bench.campaign.accounting import Ran
from contrib.bench.campaign.records import Recorded
from slurm_ext.slurm.hostlist import expand

_BEGUN = re.compile(
    r"(?:Allocate|Started) JobId=(\d+)(?:[_+]\d+\((\d+)\))? (?:NodeList=|in \S+ on )(\S+)"
)


def with_forgotten(ran: Iterable[Ran], rows: Iterable[Recorded], log: str) -> list[Ran]:
    """Accounting's starts, and earlier ones that slurmctld's log and records both have."""
    begun, restarts, found = _begun(log), _restarts(rows), list[Ran]()
    starts: dict[int, list[Ran]] = {}
    for run in ran:
        starts.setdefault(run.job_id, []).append(run)
    for job_id, told in starts.items():
        records = len(restarts.get(job_id, ()))
        more = records - len(told) if records <= len(begun.get(job_id, ())) else 0
        found += [_forgotten(told[0], n, begun[job_id][n]) for n in range(more)]
        found += [replace(run, start=run.start + max(0, more)) for run in told]
    return found


def _forgotten(one: Ran, start: int, nodes: Sequence[str]) -> Ran:
    return replace(one, start=start, nodes=tuple(nodes), state="REQUEUED")


def _begun(log: str) -> dict[int, list[Sequence[str]]]:
    """The nodes of each start in slurmctld's log, by job."""
    begun: dict[int, list[Sequence[str]]] = {}
    for job, part, nodes in _BEGUN.findall(log):
        begun.setdefault(int(part or job), []).append(expand(nodes))
    return begun


def _restarts(rows: Iterable[Recorded]) -> dict[int, set[int]]:
    restarts: dict[int, set[int]] = {}
    for row in rows:
        restarts.setdefault(row.job_id, set()).add(row.restart)
    return restarts
