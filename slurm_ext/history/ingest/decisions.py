"""The ledger: the proposal for each submission, and the job that it became.

A proposal is `proposed` until a job of its own user is seen with its token, then `claimed`. A token
in the environment or record of somebody else's job does nothing, because anyone can copy one. That
of an `sbatch --test-only` is claimed by no job and dropped, so the ledger has no orphans.
"""

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from slurm_ext.core.job_keys import job_signature
from slurm_ext.core.records import Level, Prediction
from slurm_ext.history.ingest.proposals import Proposal
from slurm_ext.history.ingest.rows import RunRecord
from slurm_ext.history.store.names import KEY_COLUMNS, STORED_LEVELS
from slurm_ext.history.store.reading import explaining
from slurm_ext.history.store.store import History

_COLUMNS = (
    "token",
    "state",
    "decided_s",
    "mode",
    "holdout",
    "action",
    "reason",
    "user",
    "uid",
    "job_name",
    "account",
    "partition",
    "before_cpus",
    "before_workers",
    "after_cpus",
    "after_workers",
    "before_samples_per_s",
    "before_low",
    "before_high",
    "before_bottleneck",
    "after_samples_per_s",
    "after_low",
    "after_high",
    "after_bottleneck",
    "interval_level",
    "level",
    "runs",
    "factor",
    "edits",
    "message",
    "model",
    "sharing",
    "elastic",
    "ranks",
    "buckets",
    "crowded",
    "factor_beside",
    "before_else_samples_per_s",
    "before_else_low",
    "before_else_high",
    "after_else_samples_per_s",
    "after_else_low",
    "after_else_high",
    *KEY_COLUMNS,
)
_INSERT = (
    f"INSERT OR IGNORE INTO decisions ({', '.join(_COLUMNS)})"
    f" VALUES ({', '.join('?' * len(_COLUMNS))})"
)
_OF_RUN = "coalesce(r.array_job_id, r.job_id)"  # an array is one submission: its first id stands


def record_proposals(
    history: History, proposals: Iterable[Proposal], journal: str, offset: int
) -> int:
    """Enter proposals and how far `journal` has been read, in one transaction: exactly once.

    Runs that came before their proposal are claimed and get their keys. Returns how many were new.
    """
    with history.transaction() as conn:
        new = [p for p in proposals if conn.execute(_INSERT, row_of(p)).rowcount == 1]
        for proposal in new:
            _catch_up(conn, proposal)
        conn.execute("INSERT OR REPLACE INTO journals VALUES (?, ?)", (journal, offset))
    return len(new)


def claim(history: History, token: str, job_id: int, *, uid: int, now_s: float) -> bool:
    """Tie a proposal to the job it became (an array's first id); whether it is that job's now.

    `uid` is the job's user, who has to be the proposal's. The first job wins: a script that submits
    another hands its own token down in the environment.
    """
    with history.transaction() as conn:
        return _claim(conn, token, job_id, uid, now_s)


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
    history: History,
    *,
    token: str | None = None,
    job_id: int | None = None,
    uid: int | None = None,
) -> dict[str, Any] | None:
    """The ledger's row for a token, or the newest for a job (an array's task included).

    A job's row is its user's: `uid`, as Slurm has it, else that of the job's newest run.
    """
    with explaining(history.path):
        if token is not None:
            return next(history.db.query(_BY_TOKEN, [token]), None)
        return next(history.db.query(_BY_JOB, {"job": job_id, "uid": uid}), None)


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
    :uid, (SELECT uid FROM runs WHERE job_id = :job ORDER BY ingested_s DESC LIMIT 1), uid)
ORDER BY id DESC LIMIT 1"""


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


_CLAIM = (
    "UPDATE decisions SET state = 'claimed', job_id = ?, claimed_s = ?"
    " WHERE token = ? AND state = 'proposed' AND uid = ?"
)
_KEYS = f"SELECT uid, job_id, {', '.join(KEY_COLUMNS)} FROM decisions WHERE token = ?"


def _claim(conn: sqlite3.Connection, token: str, job_id: int, uid: int, now_s: float) -> bool:
    conn.execute(_CLAIM, (job_id, now_s, token, uid))
    mine = conn.execute(
        "SELECT 1 FROM decisions WHERE token = ? AND job_id = ? AND uid = ?", (token, job_id, uid)
    ).fetchone()
    return mine is not None


# Other users' runs that name the token.
_STRIKE_OUT = "UPDATE runs SET decision = NULL WHERE decision = ? AND uid IS NOT ?"


def _catch_up(conn: sqlite3.Connection, proposal: Proposal) -> None:
    """Runs that arrived before their proposal: the first one claims it, its job's get the keys."""
    conn.execute(_STRIKE_OUT, (proposal.token, proposal.uid))
    first = conn.execute(
        f"SELECT {_OF_RUN}, ingested_s FROM runs r WHERE decision = ? ORDER BY start_s, id LIMIT 1",
        (proposal.token,),
    ).fetchone()
    if first is None:
        return
    job_id, ingested_s = first
    _claim(conn, proposal.token, job_id, proposal.uid, ingested_s)
    known = [(f"key_{level.name.lower()}", key) for level, key in proposal.keys.items()]
    if known:
        conn.execute(
            f"UPDATE loader_runs SET {', '.join(f'{name} = ?' for name, _ in known)} WHERE run IN"
            f" (SELECT id FROM runs r WHERE decision = ? AND {_OF_RUN} = ?)",
            (*(key for _, key in known), proposal.token, job_id),
        )


def row_of(proposal: Proposal) -> tuple[Any, ...]:
    """The ledger's row; bytes that are not UTF-8 as escapes: SQLite takes no half characters."""
    return tuple(
        value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value
        for value in _values(proposal)
    )


def _values(p: Proposal) -> tuple[Any, ...]:
    chosen, before, after = p.decision, p.decision.predicted_before, p.decision.predicted_after
    basis = after or before
    return (
        p.token,
        "proposed",
        p.decided_s,
        p.mode.value,
        p.holdout,
        chosen.action,
        chosen.reason,
        p.user,
        p.uid,
        p.job_name,
        p.account,
        p.partition,
        chosen.before.cpus_per_task,
        chosen.before.num_workers,
        chosen.after.cpus_per_task,
        chosen.after.num_workers,
        *_believed(before),
        *_believed(after),
        *((basis.interval.level, basis.level.value, basis.runs) if basis else (None, None, None)),
        p.factor,
        json.dumps(asdict(p.edits)),
        p.message,
        p.model,
        None if p.sharing is None else json.dumps(p.sharing),
        p.elastic,
        p.ranks,
        None if p.buckets is None else json.dumps(p.buckets),
        basis.crowded if basis and basis.elsewhere else None,
        p.factor_beside,
        *_elsewhere(before),
        *_elsewhere(after),
        *map(p.keys.get, STORED_LEVELS),
    )


def _believed(p: Prediction | None) -> tuple[Any, ...]:
    if p is None:
        return (None, None, None, None)
    return (p.samples_per_s, p.interval.low, p.interval.high, p.bottleneck)


def _elsewhere(p: Prediction | None) -> tuple[Any, ...]:
    other = p and p.elsewhere
    if other is None:
        return (None, None, None)
    return (other.samples_per_s, other.interval.low, other.interval.high)
