"""Facts of a job at its submission, from which its duration is learned and predicted.

Training, the advisor and the cluster loop share it: a job has the same names in all of them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite, log
from typing import Any

from slurm_ext.model.duration.state import FeaturePlan, JobFeatures

NUMBERS = ("cpus", "num_nodes", "gpus", "mem_bytes", "time_limit_s")
FILLED_IN = ("account", "mem_bytes", "time_limit_s")  # by Slurm, where a submission names none
OF_NODE = ("cpus", "mem_bytes")  # in a record; of a submission they are the whole job's
SITE = FeaturePlan(
    levels=(
        ("user", "job_name", "gpus"),
        ("user", "job_name"),
        ("user", "partition", "time_limit_s"),
        ("user",),
        ("job_name",),
        ("account",),
        ("partition", "gpus"),
        (),
    ),
    numbers=tuple(f"log_{name}" for name in NUMBERS),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DurationQuery:
    """A job as submitted; None is unknown. CPUs and bytes are the whole job's, GPUs one node's."""

    submit_s: float  # since the epoch
    user: str | None = None
    job_name: str | None = None
    account: str | None = None
    partition: str | None = None
    cpus: float | None = None
    num_nodes: float | None = None
    gpus: float | None = None
    mem_bytes: float | None = None
    time_limit_s: float | None = None

    @property
    def complete(self) -> bool:
        """True if it has the numbers that Slurm fills in where a submission names none."""
        return bool(self.mem_bytes and self.time_limit_s)

    def submission(self) -> JobFeatures:
        """Return its names and numbers."""
        names = {name: getattr(self, name) or "" for name in TEXTS}
        names |= {name: _named(getattr(self, name)) for name in COUNTED}
        numbers = {f"log_{name}": _log(getattr(self, name)) for name in NUMBERS}
        return JobFeatures(self.submit_s, names, numbers)


TEXTS = ("user", "job_name", "account", "partition")
COUNTED = ("gpus", "time_limit_s")  # numbers that are keys too: like requests run alike


def as_typed(asked: JobFeatures) -> JobFeatures:
    """The job of a record as a submission that names nothing of what Slurm fills in."""
    names = {name: "" if name in FILLED_IN else text for name, text in asked.names.items()}
    numbers = {
        name: None if name.removeprefix("log_") in FILLED_IN else number
        for name, number in asked.numbers.items()
    }
    return JobFeatures(asked.submit_s, names, numbers)


def query_of_run(run: Mapping[str, Any]) -> DurationQuery | None:
    """Query for a row of history's `runs`; None if its time of submission is not recorded."""
    submit_s = run.get("submit_s")
    if submit_s is None or not isfinite(submit_s):
        return None
    facts: dict[str, Any] = {name: run.get(name) for name in (*TEXTS, *NUMBERS)}
    # Accounting that names no nodes has one record of the whole job.
    nodes = 1 if run.get("node") == "" else run.get("num_nodes") or 1
    for name in OF_NODE:
        if facts[name] is not None:
            facts[name] *= nodes
    return DurationQuery(submit_s=float(submit_s), **facts)


def runtime_s(run: Mapping[str, Any]) -> float | None:
    """Run time of a row in s; None if not recorded, or the run ended before its submission."""
    end_s, start_s, elapsed_s = run.get("end_s"), run.get("start_s"), run.get("elapsed_s")
    submit_s = run.get("submit_s")
    if end_s is None or (submit_s is not None and end_s < submit_s):
        return None
    if elapsed_s is None and start_s is not None:
        elapsed_s = end_s - start_s
    if elapsed_s is None or not isfinite(elapsed_s) or elapsed_s < 0:
        return None
    return float(elapsed_s)


def _named(number: float | None) -> str:
    return "" if number is None or not isfinite(number) else f"{number:.0f}"


def _log(value: float | None) -> float | None:
    return log(value) if value is not None and isfinite(value) and value > 0 else None
