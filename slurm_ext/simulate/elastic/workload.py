"""A workload of elastic jobs: CSV with name, time, application, num_replicas and batch_size.

The format of the Pollux artifact (Qiao et al., OSDI '21). GPUs and batch are the tuned fixed
configuration; what a job could do at others is in its application's tables (applications.py).
"""

from dataclasses import dataclass
from pathlib import Path

from slurm_ext.core.errors import InputError
from slurm_ext.simulate.elastic.applications import rows_of

COLUMNS = ("name", "time", "application", "num_replicas", "batch_size")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadJob:
    """One job as submitted; `gpus` and `batch` are its tuned fixed configuration."""

    name: str
    arrival_s: float
    application: str
    gpus: int
    batch: int


def read_workload(path: Path) -> list[WorkloadJob]:
    """Jobs in order of arrival. Raises InputError, naming file and line."""
    jobs = [_job(path, line, row) for line, row in enumerate(rows_of(path, COLUMNS), start=2)]
    if not jobs:
        raise InputError(str(path), "no job to replay")
    if len({job.name for job in jobs}) < len(jobs):
        raise InputError(str(path), "has a job's name twice")
    return sorted(jobs, key=lambda job: job.arrival_s)


def _job(path: Path, line: int, row: dict[str, str]) -> WorkloadJob:
    try:
        job = WorkloadJob(
            name=row["name"],
            arrival_s=float(row["time"]),
            application=row["application"],
            gpus=int(row["num_replicas"]),
            batch=int(row["batch_size"]),
        )
    except (ValueError, TypeError) as error:
        raise InputError(str(path), f"unusable job: {error!r}", line=line) from None
    if job.gpus < 1 or job.batch < 1 or not 0 <= job.arrival_s < float("inf"):
        raise InputError(str(path), "expected GPUs, batch above 0 and a time", line=line)
    return job
