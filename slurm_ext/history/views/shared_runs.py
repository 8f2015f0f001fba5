"""Runs that shared a node or a GPU with others, and runs that did not: training's rows.

Newest end first, in pages: whoever reads stops where it has enough, and a million runs are never
in memory at once.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from slurm_ext.history.store.pages import ON_PAGE, newest_first
from slurm_ext.history.store.reading import explaining
from slurm_ext.history.store.store import History

_ROWS = 4096
_INSTRUCTIONS = "perf_instructions"
_SOURCED = ("key_script_args", "key_script", "key_user_name")

RUN_COLUMNS = (
    "run",
    "job_id",
    "cluster",
    "node",
    "user",
    "job_name",
    "state",
    "start_s",
    "end_s",
    "elapsed_s",
    "cpus",
    "gpus",
    "num_nodes",
    "samples_per_s",
    "workers",
    "batch_size",
    "gpu_model",
    "instructions",
    *_SOURCED,
)
"""What a run of either kind has; keys are those of its submission, else of its loader."""

PARTNER_COLUMNS = (
    "overlap_s",
    "shared_cpus",
    "shared_gpus",
    "partner_user",
    "partner_job_name",
    *(f"partner_{name}" for name in _SOURCED[1:]),
)
"""What a run beside another has more; one row for each partner, those of one run in sequence."""

ALONE_S = 0.02  # of a run's time that others may be there: one that passes by is no company


def together_rows(history: History, job_id: int | None = None) -> Iterator[tuple[Any, ...]]:
    """Runs with each job they shared a node with, as RUN_COLUMNS and PARTNER_COLUMNS.

    Of all jobs, those runs that ended.
    """
    only = ON_PAGE if job_id is None else "r.job_id = ?"
    shared = _shared_columns(history)
    sql = f"""
    SELECT {_RUN}, c.overlap_s, {shared}, p.user, p.job_name, {_keys("e", "m", _SOURCED[1:])}
    FROM runs r CROSS JOIN corunners c ON c.run = r.id
    {_LOADER}
    LEFT JOIN runs p ON p.job_id = c.job_id AND p.cluster = r.cluster AND p.node = r.node
      AND p.start_s < r.end_s AND p.end_s > r.start_s
    LEFT JOIN loader_runs m ON m.run = p.id
    LEFT JOIN decisions e ON e.token = p.decision
    WHERE r.elapsed_s > 0 AND {only} ORDER BY r.end_s DESC, r.id DESC
    """
    return newest_first(history, sql) if job_id is None else _streamed(history, sql, (job_id,))


def alone_rows(
    history: History, of: tuple[str | None, str | None] | None = None
) -> Iterator[tuple[Any, ...]]:
    """Runs that had their GPUs to themselves, or without GPUs their node, as RUN_COLUMNS.

    Those `of` a user and job name, else all that ended.
    """
    only = ON_PAGE if of is None else "r.user IS ? AND r.job_name IS ?"
    gpus = _shared_columns(history).split(", ")[1]
    sql = f"""
    SELECT {_RUN} FROM runs r {_LOADER}
    WHERE r.elapsed_s > 0 AND {only} AND NOT EXISTS (
      SELECT 1 FROM corunners c
      WHERE c.run = r.id AND (c.overlap_s IS NULL OR c.overlap_s > {ALONE_S} * r.elapsed_s)
        AND (coalesce(r.gpus, 0) = 0 OR {gpus} IS NULL OR {gpus} <> ''))
    ORDER BY r.end_s DESC, r.id DESC
    """
    return newest_first(history, sql) if of is None else _streamed(history, sql, of)


def counters_of(history: History, runs: Iterable[int]) -> Iterator[tuple[int, str, float]]:
    """Run, name and value of every counter that was measured in these runs."""
    sql = (
        "SELECT c.run, n.name, c.value FROM counters c JOIN counter_names n ON n.id = c.counter"
        " WHERE c.run = ? AND c.value IS NOT NULL ORDER BY n.name, n.source"
    )
    for run in runs:
        with explaining(history.path):
            rows = history.conn.execute(sql, (run,)).fetchall()
        yield from rows


def _keys(decision: str, loader: str, names: Iterable[str]) -> str:
    return ", ".join(f"coalesce({decision}.{name}, {loader}.{name})" for name in names)


_RUN = f"""r.id, r.job_id, r.cluster, r.node, r.user, r.job_name, r.state, r.start_s, r.end_s,
  r.elapsed_s, r.cpus, r.gpus, r.num_nodes,
  l.samples_per_s, l.workers, l.batch_size, l.gpu_model,
  (SELECT sum(i.value) FROM counters i JOIN counter_names n ON n.id = i.counter
   WHERE i.run = r.id AND n.name = '{_INSTRUCTIONS}'),
  {_keys("d", "l", _SOURCED)}"""
_LOADER = "LEFT JOIN loader_runs l ON l.run = r.id LEFT JOIN decisions d ON d.token = r.decision"


def _shared_columns(history: History) -> str:
    """Columns of shared resources, where the history has them."""
    with explaining(history.path):
        rows = history.conn.execute("SELECT name FROM pragma_table_info('corunners')").fetchall()
    there = {name for (name,) in rows}
    return ", ".join(
        f"c.{name}" if name in there else "NULL" for name in ("shared_cpus", "shared_gpus")
    )


def _streamed(history: History, sql: str, values: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    with explaining(history.path):
        cursor = history.conn.execute(sql, values)
        while rows := cursor.fetchmany(_ROWS):
            yield from rows
