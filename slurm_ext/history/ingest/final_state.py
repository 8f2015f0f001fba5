"""The final state of a run where its node and Slurm differ.

Slurmd gives the epilog 0:0 or a failure for jobs that were ended from outside: its exit code is
stale for cancelled and timed-out jobs. Of jobs that failed or ran out of memory by themselves, the
node may know better.
"""

from slurm_ext.core.records import Outcome
from slurm_ext.history.store.store import History

FROM_OUTSIDE = frozenset(
    {Outcome.CANCELLED, Outcome.TIMEOUT, Outcome.NODE_FAIL, Outcome.OUT_OF_MEMORY}
)
_SURE = "epilog"


def final_state(seen: str, source: str, slurm: str) -> str:
    """The state to keep: `seen` and its source as recorded, `slurm` as Slurm finally reports it."""
    if slurm == Outcome.UNKNOWN or seen == Outcome.REQUEUED:
        return seen
    if source == _SURE and seen != Outcome.UNKNOWN and slurm not in FROM_OUTSIDE:
        return seen
    return slurm


def apply_final_state(history: History, job_id: int, restart: int, slurm: str) -> int:
    """Correct every node's run by Slurm's final state; how many changed. Raises HistoryError."""
    with history.transaction() as conn:
        found = conn.execute(
            "SELECT id, state, source FROM runs WHERE job_id = ? AND restart = ?",
            (job_id, restart),
        ).fetchall()
        stands = [(final_state(seen, source, slurm), run, seen) for run, seen, source in found]
        changed = [(state, run) for state, run, seen in stands if state != seen]
        conn.executemany("UPDATE runs SET state = ? WHERE id = ?", changed)
    return len(changed)
