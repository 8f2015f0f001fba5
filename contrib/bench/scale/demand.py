"""The cluster that is asked about, and for each part: its cost there, and the size that it holds.

A part holds while its cost is within a budget: a core's second for what comes each second, the time
between two looks for what looks, memory and disk as a server of this size has them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import inf
from typing import Any

from contrib.bench.scale.laws import Law
from slurm_ext.advisor.history_writer.receive import MOST_CONNECTIONS
from slurm_ext.advisor.service.refresh import MOST_RUNS
from slurm_ext.advisor.service.server import MOST_CLIENTS
from slurm_ext.core.settings.document import Settings

GIB = 1 << 30
Laws = Mapping[str, Mapping[str, Law]]  # of a part, by its costs


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """The load; each job is on one node, and stays `min_job_age_s` in squeue's list."""

    nodes: int = 10_000
    running: int = 100_000
    per_s: int = 1_000
    seconds: int = 3_600
    min_job_age_s: int = 300  # Slurm's default
    memory_b: int = 16 * GIB  # for dlqueue, beside slurmctld
    disk_b: int = 100 * GIB

    @property
    def listed(self) -> int:
        """Jobs of one `squeue --states=all`: the running, and those that ended a moment ago."""
        return self.running + self.per_s * self.min_job_age_s

    @property
    def submitted(self) -> int:
        """Submissions in all; as many runs end."""
        return self.per_s * self.seconds


def demands(laws: Laws, cluster: Cluster) -> list[dict[str, Any]]:
    """A row for each part: the one that breaks first is the first."""
    rows = [*_each_second(laws, cluster), *_looks(laws, cluster), *_space(laws, cluster)]
    return sorted(rows, key=lambda row: float(row["holds"] / row["asked"]))


def _row(part: str, unit: str, asked: float, cost: str, holds: float) -> dict[str, Any]:
    return {
        "part": part,
        "unit": unit,
        "asked": asked,
        "cost": cost,
        "holds": min(holds, 1e12),
        "breaks": holds < asked,
    }


def _each_second(laws: Laws, cluster: Cluster) -> Iterator[dict[str, Any]]:
    """One core answers, one writes the history; runs beyond MOST_RUNS are not in memory."""
    runs = min(cluster.submitted, MOST_RUNS)
    answer_s = laws["advisor"]["answer_cpu_s"].at(runs)
    per_s = 1 / answer_s
    yield _row("answers", "submissions/s", cluster.per_s, f"{1e3 * answer_s:.2f} ms each", per_s)
    record_s = laws["ingest"]["cpu_s"].at(cluster.submitted)
    per_s = 1 / record_s
    yield _row("ingest", "records/s", cluster.per_s, f"{1e3 * record_s:.2f} ms each", per_s)


def _looks(laws: Laws, cluster: Cluster) -> Iterator[dict[str, Any]]:
    """Listings that are read whole again and again, within the time between two looks."""
    every_s = float(Settings()["advisor.reconcile_s"])
    jobs, nodes = laws["listed_jobs"], laws["listed_nodes"]
    cost = f"{jobs['cpu_s'].at(cluster.listed):.0f} s every {every_s:g} s"
    yield _row("squeue, time", "jobs", cluster.listed, cost, jobs["cpu_s"].size_of(every_s))
    memory_b = jobs["memory_b"]
    cost = f"{memory_b.at(cluster.listed) / GIB:.1f} GiB"
    holds = memory_b.size_of(cluster.memory_b)
    yield _row("squeue, memory", "jobs", cluster.listed, cost, holds)
    cost = f"{nodes['cpu_s'].at(cluster.nodes):.2f} s every {every_s:g} s"
    yield _row("nodes' list", "nodes", cluster.nodes, cost, nodes["cpu_s"].size_of(every_s))


def _space(laws: Laws, cluster: Cluster) -> Iterator[dict[str, Any]]:
    """Memory, disk and descriptors after all of it."""
    memory_b = laws["advisor"]["memory_b"]
    runs = min(cluster.submitted, MOST_RUNS)
    held = memory_b.size_of(cluster.memory_b)
    cost = f"{memory_b.at(runs) / GIB:.2f} GiB, {MOST_RUNS:,} runs at most"
    yield _row("advisor, memory", "runs", runs, cost, inf if held >= MOST_RUNS else held)
    run_b = laws["ingest"]["disk_b"].at(cluster.submitted)
    run_b += laws["advisor"]["journal_b"].at(runs)
    cost = f"{run_b:,.0f} B a run, {run_b * cluster.submitted / GIB:.1f} GiB"
    yield _row("disk", "runs", cluster.submitted, cost, cluster.disk_b / run_b)
    open_s = MOST_CLIENTS + MOST_CONNECTIONS
    cost = f"{open_s} connections at most, whatever the size"
    yield _row("descriptors", "nodes", cluster.nodes, cost, inf)
