"""One row of the table: what came of everything that was submitted and ran."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from contrib.bench.campaign import records
from contrib.bench.campaign.accounting import Ran
from contrib.bench.campaign.forgotten import all_ended_by_themselves, ends
from contrib.bench.campaign.holds import NEAR, holds, most_within
from contrib.bench.campaign.records import Recorded
from contrib.bench.campaign.submissions import HETEROGENEOUS, REFUSED, Submitted

RECOVERY_S = 60.0
_UNREACHABLE = (
    "Unable to contact slurm controller",
    "Socket timed out",
    "Zero Bytes were transmitted",
    "Connection refused",
    "Connection reset by peer",
    "Transport endpoint is not connected",
    "Communication connection failure",
    "Protocol authentication error",
    "Invalid authentication credential",
    "Unexpected message received",
    "Unexpected missing socket error",
    "Slurm temporarily unable to accept job",
    "no answer within",
    "Requested node configuration is not available",  # a test-only job's, until nodes register
)
SLACK_S = 0.02  # of a busy machine, beyond the deadline


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The columns; each list names what it counts."""

    fault: str
    submitted: int
    refused: int
    rejected: list[str]
    drained: list[str]
    changed: list[str]
    runs: int
    lost: list[str]
    doubled: list[str]
    otherwise: list[str]
    aside: int
    aside_unexplained: int
    held_s: float
    held_in_period: int  # waits of a whole deadline within one breaker period
    over_deadline: int  # calls that took longer than the deadline, the machine's part left out
    sbatch_s: float
    recovery_s: float | None
    reasons: dict[str, int] = field(default_factory=dict)
    running: int = 0  # runs that were not over when the measurement was
    in_vain: list[str] = field(default_factory=list)  # nodes that slurmd's own flaw drained

    @property
    def harm(self) -> dict[str, int]:
        """The columns that must be 0."""
        return {
            name: len(getattr(self, name))
            for name in ("rejected", "drained", "changed", "lost", "doubled", "otherwise")
        } | {"aside_unexplained": self.aside_unexplained}

    @property
    def held(self) -> bool:
        """True if the row is as it is wanted."""
        soon = self.recovery_s is not None and self.recovery_s <= RECOVERY_S
        return soon and not any(self.harm.values()) and not self.over_deadline

    def as_json(self) -> dict[str, Any]:
        """Return the row for a state file."""
        return asdict(self)


def row_of(
    fault: str,
    submitted: Sequence[Submitted],
    *,
    no_slurm: bool,
    ran: Sequence[Ran],
    rows: Sequence[Recorded],
    decided_twice: Iterable[int],
    aside: Sequence[str],
    drained: Sequence[str],
    in_vain: Sequence[str] = (),
    changed: Sequence[str],
    log: str,
    deadline_s: float,
    breaker_s: float,
    recovery_s: float | None,
) -> Row:
    """Judge what Slurm and the history have."""
    failed = [one for one in submitted if one.status != 0]
    ours = [one for one in failed if not _slurms_own(one, no_slurm=no_slurm)]
    called = holds(log)
    again = given_again(submitted)
    ran = [run for run in ran if run.job_id not in again]
    rows = [row for row in rows if row.job_id not in again]
    return Row(
        fault=fault,
        submitted=len(submitted),
        refused=len(failed) - len(ours),
        rejected=[f"{one.kind} of {one.user}: {one.said.strip()[-200:]}" for one in ours],
        drained=list(drained),
        in_vain=list(in_vain),
        changed=list(changed),
        runs=sum(run.over for run in ran),
        running=sum(not run.over for run in ran),
        lost=records.lost(ran, rows),
        doubled=records.doubled(ran, rows, set(decided_twice) - again),
        otherwise=records.told_otherwise(
            ran, rows, ends(log) if no_slurm else None, all_ended_by_themselves(ran, log)
        ),
        aside=len(aside),
        aside_unexplained=sum(not reason for reason in aside),
        held_s=max((hold.held_s for hold in called), default=0.0),
        held_in_period=most_within(called, least_s=NEAR * deadline_s, period_s=breaker_s),
        over_deadline=sum(hold.own_s > deadline_s + SLACK_S for hold in called),
        sbatch_s=max((one.seconds for one in submitted), default=0.0),
        recovery_s=recovery_s,
        reasons={reason: list(aside).count(reason) for reason in sorted(set(aside))},
    )


def given_again(submitted: Iterable[Submitted]) -> set[int]:
    """Numbers of more than one job: a slurmctld that is killed forgets whom it gave the last ones.

    What is known of such a number cannot be told apart, and is left out.
    """
    ids = (number for one in submitted if one.job_id for number in _numbers(one, one.job_id))
    counts = Counter(ids)
    return {job_id for job_id, count in counts.items() if count > 1}


def _numbers(one: Submitted, job_id: int) -> range:
    """All numbers of a job: each part of a heterogeneous one has its own."""
    return range(job_id, job_id + (2 if one.kind == HETEROGENEOUS else 1))


def _slurms_own(one: Submitted, *, no_slurm: bool) -> bool:
    """True if Slurm refused by itself: what it always refuses, or everything while it is broken."""
    return one.kind in REFUSED or (no_slurm and any(why in one.said for why in _UNREACHABLE))
