"""Runs of one job with what their GPUs counted: what the chooser of ranks is asked about."""

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean

from slurm_ext.core.job_keys import user_name_key
from slurm_ext.core.records import Level
from slurm_ext.history.store.names import KEY_OF_LEVEL
from slurm_ext.history.store.reading import explaining
from slurm_ext.history.store.store import History
from slurm_ext.history.views.shared_runs import counters_of

MOST_RUNS = 16
_MOST_LOOKED_AT = 2000  # a user's newest
_LOADER = (
    "samples_per_s",
    "workers",
    "batch_size",
    "accel_samples_per_s",
    "ranks",
    "nodes",
    "gpus",
    "run_samples",
    "emulated",
    "gpu_model",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuRun:
    """One run's loader row (columns of loader_runs), its place, and its GPUs' counters."""

    job_id: int
    elapsed_s: float
    cpus: int | None
    loader: Mapping[str, float | int | str | None]
    shared: bool  # another job was on one of its GPUs
    counters: Mapping[str, float]  # of all its GPUs: means, of peaks the largest


def gpu_runs(history: History, level: Level, key: int) -> list[GpuRun]:
    """The newest runs that share a level's key, newest first. Raises HistoryError."""
    sql = (
        f"SELECT r.id, r.job_id, r.elapsed_s, r.cpus,"
        " EXISTS (SELECT 1 FROM corunners c WHERE c.run = r.id"
        "   AND c.shared_gpus IS NOT NULL AND c.shared_gpus <> ''),"
        f" {', '.join(f'l.{name}' for name in _LOADER)}"
        " FROM loader_runs l JOIN runs r ON r.id = l.run"
        f" WHERE l.{KEY_OF_LEVEL[level]} = ? AND r.elapsed_s > 0 ORDER BY l.id DESC LIMIT ?"
    )
    with explaining(history.path):
        rows = history.conn.execute(sql, (key, MOST_RUNS)).fetchall()
    return [
        GpuRun(
            job_id=job_id,
            elapsed_s=elapsed_s,
            cpus=cpus,
            shared=bool(shared),
            loader=dict(zip(_LOADER, values, strict=True)),
            counters=_counters(history, run),
        )
        for run, job_id, elapsed_s, cpus, shared, *values in rows
    ]


def newest_of_name(history: History, user: str, key: int) -> int | None:
    """A user's newest job of a name (`user_name_key`), measured or not. Raises HistoryError."""
    sql = "SELECT job_id, job_name FROM runs WHERE user = ? ORDER BY end_s DESC LIMIT ?"
    with explaining(history.path):
        rows = history.conn.execute(sql, (user, _MOST_LOOKED_AT)).fetchall()
    alike = (job for job, name in rows if name and user_name_key(user, name) == key)
    return next(alike, None)


def _counters(history: History, run: int) -> dict[str, float]:
    by_name: dict[str, list[float]] = {}
    for _, name, value in counters_of(history, [run]):
        plain = name.partition("@")[0]
        if plain.startswith("gpu_"):
            by_name.setdefault(plain, []).append(value)
    return {
        n: max(values) if n.endswith("_peak") else fmean(values) for n, values in by_name.items()
    }
