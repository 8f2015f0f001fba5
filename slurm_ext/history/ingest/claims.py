"""Proposals and the jobs that they became: tied by token, and by user on both sides."""

import sqlite3
from collections.abc import Mapping

from slurm_ext.core.records import Level
from slurm_ext.history.ingest.proposals import Proposal
from slurm_ext.history.ingest.rows import RunRecord
from slurm_ext.history.store.names import KEY_COLUMNS, STORED_LEVELS

_OF_RUN = "coalesce(r.array_job_id, r.job_id)"  # an array is one submission: its first id stands
_CLAIM = (
    "UPDATE decisions SET state = 'claimed', job_id = ?, claimed_s = ?"
    " WHERE token = ? AND state = 'proposed' AND uid = ?"
)
_KEYS = f"SELECT uid, job_id, {', '.join(KEY_COLUMNS)} FROM decisions WHERE token = ?"
# Other users' runs that name the token.
_STRIKE_OUT = "UPDATE runs SET decision = NULL WHERE decision = ? AND uid IS NOT ?"


def claim_for_run(conn: sqlite3.Connection, run: RunRecord, now_s: float) -> Mapping[Level, int]:
    """Tie the proposal that a run's record names to the run's job.

    Returns the submission's keys; none where its proposal is not here, or is another job's. The
    token of another user's proposal is struck out: no query finds this run by it.
    """
    if run.decision is None:
        return {}
    job_id = run.array_job_id or run.job_id
    conn.execute(_CLAIM, (job_id, now_s, run.decision, run.uid))
    row = conn.execute(_KEYS, (run.decision,)).fetchone()
    if row is None:
        return {}
    uid, claimed_by, *keys = row
    if uid != run.uid:
        conn.execute("UPDATE runs SET decision = NULL WHERE record_id = ?", (run.record_id,))
    if (uid, claimed_by) != (run.uid, job_id):
        return {}
    return {level: key for level, key in zip(STORED_LEVELS, keys, strict=True) if key is not None}


def claim_token(conn: sqlite3.Connection, token: str, job_id: int, uid: int, now_s: float) -> bool:
    """Tie one proposal to a job of its own user; whether it is that job's now."""
    conn.execute(_CLAIM, (job_id, now_s, token, uid))
    mine = conn.execute(
        "SELECT 1 FROM decisions WHERE token = ? AND job_id = ? AND uid = ?", (token, job_id, uid)
    ).fetchone()
    return mine is not None


def catch_up(conn: sqlite3.Connection, proposal: Proposal) -> None:
    """Runs that arrived before their proposal: the first one claims it, its job's get the keys."""
    conn.execute(_STRIKE_OUT, (proposal.token, proposal.uid))
    first = conn.execute(
        f"SELECT {_OF_RUN}, ingested_s FROM runs r WHERE decision = ? ORDER BY start_s, id LIMIT 1",
        (proposal.token,),
    ).fetchone()
    if first is None:
        return
    job_id, ingested_s = first
    claim_token(conn, proposal.token, job_id, proposal.uid, ingested_s)
    known = [(f"key_{level.name.lower()}", key) for level, key in proposal.keys.items()]
    if known:
        conn.execute(
            f"UPDATE loader_runs SET {', '.join(f'{name} = ?' for name, _ in known)} WHERE run IN"
            f" (SELECT id FROM runs r WHERE decision = ? AND {_OF_RUN} = ?)",
            (*(key for _, key in known), proposal.token, job_id),
        )
