"""The ledger: the proposal for each submission, and the job that it became.

A proposal is `proposed` until a job of its own user is seen with its token, then `claimed`. A token
in the environment or record of somebody else's job does nothing, because anyone can copy one. That
of an `sbatch --test-only` is claimed by no job and dropped, so the ledger has no orphans.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from slurm_ext.core.job_keys import job_signature
from slurm_ext.core.records import Level
from slurm_ext.history.ingest.claims import catch_up, claim_token
from slurm_ext.history.ingest.proposal_rows import INSERT, row_of
from slurm_ext.history.ingest.proposals import Proposal
from slurm_ext.history.store.reading import explaining
from slurm_ext.history.store.store import History


def record_proposals(
    history: History, proposals: Iterable[Proposal], journal: str, offset: int
) -> int:
    """Enter proposals and how far `journal` has been read, in one transaction: exactly once.

    Runs that came before their proposal are claimed and get their keys. Returns how many were new.
    """
    with history.transaction() as conn:
        new = [p for p in proposals if conn.execute(INSERT, row_of(p)).rowcount == 1]
        for proposal in new:
            catch_up(conn, proposal)
        conn.execute("INSERT OR REPLACE INTO journals VALUES (?, ?)", (journal, offset))
    return len(new)


def claim(history: History, token: str, job_id: int, *, uid: int, now_s: float) -> bool:
    """Tie a proposal to the job it became (an array's first id); whether it is that job's now.

    `uid` is the job's user, who has to be the proposal's. The first job wins: a script that submits
    another hands its own token down in the environment.
    """
    with history.transaction() as conn:
        return claim_token(conn, token, job_id, uid, now_s)


def unclaimed_rows(history: History) -> list[dict[str, Any]]:
    """The ledger's rows that no job was seen with."""
    with explaining(history.path):
        return list(history.db.query("SELECT * FROM decisions WHERE state = 'proposed'"))


def unclaimed(history: History, *, before_s: float) -> list[str]:
    """Tokens proposed before `before_s` that no job was seen with."""
    with explaining(history.path):
        found = history.conn.execute(
            "SELECT token FROM decisions WHERE state = 'proposed' AND decided_s < ?", (before_s,)
        )
        return [token for (token,) in found]


def drop_unclaimed(history: History, *, before_s: float, keep: Sequence[str] = ()) -> int:
    """Delete proposals older than `before_s` that became no job, but for `keep`; how many."""
    tokens = set(unclaimed(history, before_s=before_s)) - set(keep)
    with history.transaction() as conn:
        return (
            conn.executemany(
                "DELETE FROM decisions WHERE token = ? AND state = 'proposed'",
                [(token,) for token in sorted(tokens)],
            ).rowcount
            if tokens
            else 0
        )


def decision(
    history: History, *, token: str | None = None, job_id: int | None = None
) -> dict[str, Any] | None:
    """The ledger's row for a token, or the newest for a job's id (an array's task included).

    A job's row is the user's of the job's newest run. For a job that Slurm lists there is more to
    go by than its id (job_decisions.py).
    """
    with explaining(history.path):
        if token is not None:
            return next(history.db.query(_BY_TOKEN, [token]), None)
        return next(history.db.query(_BY_JOB, {"job": job_id}), None)


def elastic_jobs(history: History) -> dict[tuple[int, int, str], str]:
    """Return DLQUEUE_ELASTIC of each job's environment, by job id, user id and job name.

    The id alone would not do: a slurmctld that lost its state begins again at 1.
    """
    with explaining(history.path):
        rows = history.conn.execute(
            "SELECT job_id, uid, job_name, elastic FROM decisions"
            " WHERE elastic IS NOT NULL AND job_id IS NOT NULL ORDER BY id"
        )
        return {(job_id, uid, name): said for job_id, uid, name, said in rows}


def solo_key_of(row: Mapping[str, Any] | None) -> str | None:
    """Signature of the job of a ledger's row, by which GPU sharing knows it (core/job_keys.py)."""
    levels = (Level.SCRIPT, Level.USER_NAME)
    keys = {level: row[f"key_{level.name.lower()}"] for level in levels} if row else {}
    return job_signature({level: key for level, key in keys.items() if key is not None})


_BY_TOKEN = "SELECT * FROM decisions WHERE token = ?"  # noqa: S105 (not a password)
_BY_JOB = """
SELECT * FROM decisions
WHERE (job_id = :job OR job_id IN (SELECT array_job_id FROM runs WHERE job_id = :job))
AND uid IS coalesce(
    (SELECT uid FROM runs WHERE job_id = :job ORDER BY ingested_s DESC LIMIT 1), uid)
ORDER BY id DESC LIMIT 1"""
