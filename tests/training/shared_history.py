"""A history of jobs alone and in pairs whose truth is known."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import count, product
from pathlib import Path
from typing import Any

import numpy as np

from slurm_ext.history.store.store import History, open_history

JOBS = "abcdefgh"
LONG_S = 1000.0


def truth(job: str, partner: str) -> float:
    """A job's speed beside another: its own sensitivity times the other's pressure."""
    sensitivity, pressure = JOBS.index(job) / 8, JOBS.index(partner) / 8
    return 1.0 / (1.0 + 0.8 * sensitivity * pressure + 0.2 * pressure)


@dataclass(slots=True)
class Site:
    """Puts runs into a history; every run ends a minute after the one before."""

    path: Path
    numbers: "count[int]" = field(default_factory=lambda: count(1))
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(1))

    def alone(self, history: History, job: str, rate: float = 100.0, **more: Any) -> int:
        """A run alone, with its loader's rate and one counter."""
        number = next(self.numbers)
        run = _run(number, job) | {k: v for k, v in more.items() if k in _RUN}
        _insert(history, "runs", run)
        loader = {"run": number, "samples_per_s": rate, "workers": 2, "batch_size": 32.0}
        _insert(history, "loader_runs", loader | {k: v for k, v in more.items() if k in _LOADER})
        used = 50.0 * (1 + JOBS.index(job)) * LONG_S
        _insert(history, "counters", {"run": number, "counter": 1, "value": used})
        return number

    def pair(
        self, history: History, job: str, partner: str, speed: float, *, over: float = 1.0
    ) -> None:
        """Two runs together for a share of their time; `speed` is the first's in that time."""
        rate = 100.0 * (1.0 - over + over * speed)
        first, second = self.alone(history, job, rate), self.alone(history, partner, 77.0)
        both = LONG_S + 60.0
        for run, other in ((first, second), (second, first)):
            seen = {"run": run, "job_id": other, "overlap_s": over * LONG_S}
            _insert(history, "corunners", seen)
            history.conn.execute("UPDATE runs SET start_s = end_s - ? WHERE id = ?", (both, run))
        history.conn.execute("DELETE FROM loader_runs WHERE run = ?", (second,))

    def open(self) -> History:
        """The history, with the name of the one counter in it."""
        history = open_history(self.path)
        name = {"id": 1, "name": "cpu_user", "unit": "s", "source": "cgroup/v1"}
        history.conn.execute("DELETE FROM counter_names")
        _insert(history, "counter_names", name)
        return history


def filled(
    path: Path, pairs: Iterable[tuple[str, str]] | None = None, *, noise: float = 0.02
) -> Path:
    """Each job alone three times, then all pairs (or these) in an order drawn once."""
    site = Site(path)
    with site.open() as history:
        for job in JOBS * 3:
            site.alone(history, job)
        met = list(pairs or product(JOBS, JOBS))
        site.rng.shuffle(met)
        for job, partner in met:
            spread = float(np.exp(site.rng.normal(0.0, 0.02)))
            site.pair(history, job, partner, truth(job, partner) * spread)
    return path


_RUN = frozenset({"gpus", "num_nodes", "elapsed_s", "state"})
_LOADER = frozenset({"gpu_model", "workers"})


def _run(number: int, job: str) -> dict[str, Any]:
    end = 1e9 + 60.0 * number
    return {
        "id": number,
        "record_id": f"c-{number}-0-n1",
        "cluster": "c",
        "job_id": number,
        "restart": 0,
        "node": "n1",
        "user": "ada",
        "job_name": job,
        "partition": "p",
        "cpus": 2,
        "start_s": end - LONG_S,
        "end_s": end,
        "elapsed_s": LONG_S,
        "state": "COMPLETED",
        "source": "epilog",
        "ingested_s": end,
    }


def _insert(history: History, table: str, row: dict[str, Any]) -> None:
    marks = ", ".join("?" * len(row))
    history.conn.execute(
        f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})", list(row.values())
    )
