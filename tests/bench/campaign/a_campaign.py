"""Starts, submissions and rows of a fault campaign, made by hand."""

from collections.abc import Sequence

from contrib.bench.campaign.accounting import Ran
from contrib.bench.campaign.row import Row, row_of
from contrib.bench.campaign.submissions import Submitted


def ran(job_id: int, start: int = 0, state: str = "COMPLETED", nodes: str = "n1") -> Ran:
    """One start of a job."""
    return Ran(job_id=job_id, start=start, nodes=tuple(nodes.split()), state=state, opted_out=False)


def submitted(status: int | None = 0, kind: str = "known", said: str = "") -> Submitted:
    """One submission by root."""
    return Submitted(kind=kind, user="root", seconds=0.1, status=status, job_id=7, said=said)


def judged(
    *jobs: Submitted,
    no_slurm: bool = False,
    log: str = "",
    recovery_s: float = 1.0,
    ran: Sequence[Ran] = (),
    decided_twice: Sequence[int] = (),
) -> Row:
    """The row of a fault under which these were submitted, `ran`, and left no record."""
    return row_of(
        "none",
        jobs,
        no_slurm=no_slurm,
        ran=ran,
        rows=[],
        decided_twice=decided_twice,
        aside=[],
        drained=[],
        changed=[],
        log=log,
        deadline_s=0.05,
        breaker_s=30,
        recovery_s=recovery_s,
    )
