"""An array of jobs: how all of its tasks ended, and those of them that an answer is of."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from slurm_ext.history.store.store import History

MOST_TASKS = 200  # of one array in an answer: it may have a million
# Of each task the last start, and of its nodes one that did not complete, if any: SQLite takes the
# other columns from the row that has the maximum.
_ENDS = """
SELECT job_id, array_task_id, state, end_s, max(2 * restart + (state <> 'COMPLETED')) FROM runs
WHERE array_job_id = :job AND array_task_id IS NOT NULL AND cluster = (
    SELECT cluster FROM runs WHERE array_job_id = :job
    ORDER BY source = 'sacct', end_s DESC LIMIT 1)
GROUP BY job_id"""


def recorded_job(
    history: "History", job_id: int, task: int | None
) -> tuple[dict[str, Any] | None, dict[str, int]]:
    """Give `queries.job`, and how many of an array's tasks ended in which state.

    Of a large array it has MOST_TASKS tasks: those that did not complete, then the newest ones.
    Raises HistoryError.
    """
    from slurm_ext.history.ingest.decisions import decision
    from slurm_ext.history.store.reading import explaining
    from slurm_ext.history.views.queries import job

    with explaining(history.path):
        rows = history.conn.execute(_ENDS, {"job": job_id}) if task is None else ()
        ends = [row[:-1] for row in rows]
    states = Counter(state for _, _, state, _ in ends)
    if len(ends) <= MOST_TASKS:
        return job(history, job_id, task), states
    ends.sort(key=lambda end: (end[2] == "COMPLETED", -(end[3] or 0.0)))
    runs = [
        run for number, at, *_ in ends[:MOST_TASKS] for run in _task(history, job_id, number, at)
    ]
    return {"job_id": job_id, "runs": runs, "decision": decision(history, job_id=job_id)}, states


def _task(history: "History", array: int, number: int, task: int) -> Sequence[Mapping[str, Any]]:
    """Runs of one task, by its own number, which is found at once; one task has its array's."""
    from slurm_ext.history.views.queries import job

    found = job(history, array, task) if number == array else job(history, number)
    return [run for run in found["runs"] if run["array_job_id"] == array] if found else []
