"""The decision on a job that Slurm lists. Its number alone does not tell.

A slurmctld that lost its state, or whose numbers wrapped, gives a number again: a decision counts
if it was made when the job was submitted. A requeue sets the submit time again, so a requeued job
has the newest decision on that number and name from before.
"""

import sqlite3
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from slurm_ext.history.store.reading import explaining
from slurm_ext.history.store.store import History


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmittedJob:
    """A job in Slurm's words; a decision on it was made from `early_s` to `late_s`."""

    job_id: int  # an array is one submission: its first id stands
    uid: int
    job_name: str
    early_s: float
    late_s: float
    requeued: bool = False  # the decision may be from long before


def decision_of(history: History, job: SubmittedJob) -> dict[str, Any] | None:
    """The ledger's row of the decision that is tied to the job."""
    with explaining(history.path):
        return next(history.db.query(_TIED, _values(job)), None)


def token_of(conn: sqlite3.Connection, path: Path, job: SubmittedJob, claimed: str) -> str | None:
    """The decision tied to the job, else the `claimed` one if it can have become the job."""
    with explaining(path):
        row = conn.execute(_TIED_OR_CLAIMED, {**_values(job), "claimed": claimed}).fetchone()
    return None if row is None else str(row[0])


def _values(job: SubmittedJob) -> dict[str, Any]:
    """The job for a query, its name as the ledger has it (proposal_rows.py)."""
    name = job.job_name.encode("utf-8", "backslashreplace").decode()
    return {**asdict(job), "job_name": name}


# A tied decision has the job's own number: a busy slurmctld or a clock that is set parts no two.
_SLACK_S = 300.0
_TIED_IN_TIME = f"""job_id = :job_id AND uid = :uid AND CASE WHEN :requeued
    THEN decided_s <= :late_s AND (decided_s >= :early_s OR job_name = :job_name)
    ELSE decided_s BETWEEN :early_s - {_SLACK_S} AND :late_s + {_SLACK_S} END"""
_CLAIMED_IN_TIME = """state = 'proposed' AND token = :claimed AND uid = :uid
    AND job_name = :job_name AND decided_s <= :late_s AND (decided_s >= :early_s OR :requeued)"""
_TIED = f"SELECT * FROM decisions WHERE {_TIED_IN_TIME} ORDER BY id DESC LIMIT 1"
_TIED_OR_CLAIMED = f"""
SELECT token FROM decisions WHERE ({_TIED_IN_TIME}) OR ({_CLAIMED_IN_TIME})
ORDER BY state, id DESC LIMIT 1"""
