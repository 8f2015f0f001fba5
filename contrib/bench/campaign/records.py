"""Records held against what ran: lost ones, doubled ones, and ends that Slurm tells otherwise."""

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from contrib.bench.campaign.accounting import Ran
from contrib.bench.campaign.cluster import TAUGHT
from slurm_ext.sandbox import Sandbox
from tests.whole import asked

_RUNS = f"SELECT job_id, restart, node, state FROM runs WHERE job_id < {TAUGHT}"
_DECISIONS = "SELECT job_id, count(*) FROM decisions WHERE job_id > 0 GROUP BY job_id"
_EXITS = {"COMPLETED", "FAILED"}
_SAME = {"NODE_FAIL": {"NODE_FAIL", "REQUEUED"}, "REQUEUED": {"REQUEUED"}}


@dataclass(frozen=True, slots=True)
class Recorded:
    """One row of the history."""

    job_id: int
    restart: int
    node: str
    state: str


def recorded(slurm: Sandbox) -> list[Recorded]:
    """Every run in the history; none while it cannot be read."""
    return [Recorded(*row) for row in asked(slurm, _RUNS)]


def lost(ran: Iterable[Ran], rows: Sequence[Recorded]) -> list[str]:
    """Each node's part of a run that is over and has no record."""
    found = []
    for run, mine in _pairs(ran, rows):
        if run.over and not run.opted_out:
            there = {row.node for row in mine}
            found += [
                f"{run.job_id}.{run.start} on {node}" for node in run.nodes if node not in there
            ]
    return found


def doubled(ran: Sequence[Ran], rows: Sequence[Recorded], decisions: Iterable[int]) -> list[str]:
    """Records of one part of a run, or decisions of a job, beyond the first; records of nothing."""
    known = {
        (run.job_id, row)
        for run, mine in _pairs(ran, rows)
        for row in mine
        if row.node in run.nodes
    }
    counts = Counter((row.job_id, row.restart, row.node) for row in rows)
    twice = [f"{job}.{restart} on {node}" for (job, restart, node), n in counts.items() if n > 1]
    jobs = {run.job_id for run in ran}
    of_nothing = [
        f"{row.job_id}.{row.restart} on {row.node}, where it did not run"
        for row in rows
        if row.job_id in jobs and (row.job_id, row) not in known
    ]
    return [*twice, *of_nothing, *(f"decisions of job {job}" for job in decisions)]


def told_otherwise(
    ran: Iterable[Ran],
    rows: Sequence[Recorded],
    forgotten: Mapping[int, set[str]] | None,
    exited: Container[int] = (),
) -> list[str]:
    """Runs whose record has another end than accounting has.

    A slurmctld that was killed before it saved an end calls it a node's failure later. Then the end
    that its log has of the job, in `forgotten`, is right too, and UNKNOWN where it has none. None:
    slurmctld forgets nothing. Jobs of `exited` ended by themselves before they were requeued.
    """
    return [
        f"{row.job_id}.{row.restart} on {row.node} {row.state}, for Slurm {run.state}"
        for run, mine in _pairs(ran, rows)
        for row in mine
        if run.over
        and row.state not in _right(run, forgotten)
        and not (run.state == "REQUEUED" and row.state in _EXITS and run.job_id in exited)
    ]


def _right(run: Ran, forgotten: Mapping[int, set[str]] | None) -> set[str]:
    same = _SAME.get(run.state, {run.state})
    if forgotten is None or run.state != "NODE_FAIL":
        return same
    return same | forgotten.get(run.job_id, {"UNKNOWN"})


def decided_twice(slurm: Sandbox) -> list[int]:
    """Jobs with more than one decision."""
    return [job_id for job_id, count in asked(slurm, _DECISIONS) if count > 1]


def _pairs(ran: Iterable[Ran], rows: Sequence[Recorded]) -> Iterator[tuple[Ran, list[Recorded]]]:
    """Each start with its rows: Slurm's n-th start of a job is its n-th restart in the history."""
    restarts: dict[int, list[int]] = {}
    for row in rows:
        if row.restart not in restarts.setdefault(row.job_id, []):
            restarts[row.job_id].append(row.restart)
    for run in ran:
        mine = sorted(restarts.get(run.job_id, ()))
        restart = mine[run.start] if run.start < len(mine) else None
        yield run, [row for row in rows if (row.job_id, row.restart) == (run.job_id, restart)]


def set_aside(slurm: Sandbox) -> list[str]:
    """The reason of each thing that was set aside; empty where there is none."""
    return [str(reason or "") for (reason,) in asked(slurm, "SELECT reason FROM set_aside")]
