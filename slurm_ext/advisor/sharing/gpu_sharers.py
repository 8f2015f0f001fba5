"""Jobs that ask for a part of a GPU, waiting or running: <state_dir>/queue.json.

The history writer replaces the file after each comparison with squeue, so that slurmctld is asked
once; the advisor reads it when it has changed. Schema (version 1): {"v", "at_s", "jobs": [{"job",
"user", "account", "partition", "state", "kind", "count", "key"}]}, the fields of `SharedGpuJob`;
`key` is core/job_keys.py's job_signature, null if no submission of ours became the job. A job that
can be one of several submissions yet stands there as each of them.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from slurm_ext.core.errors import InputError
from slurm_ext.core.files import replace_file
from slurm_ext.core.gpu_request import SHARED_KINDS, parse_gres
from slurm_ext.slurm import JobInfo

NAME = "queue.json"
VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedGpuJob:
    """One job that has, or waits for, a part of a GPU."""

    job: str
    user: str
    account: str = ""
    partition: str = ""
    state: str = "PENDING"
    kind: str = "mps"
    count: int = 0
    key: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedGpuQueue:
    """All of them at one moment."""

    at_s: float = float("-inf")  # never looked
    jobs: tuple[SharedGpuJob, ...] = ()


def shared_gpu_jobs(jobs: Iterable[JobInfo]) -> list[SharedGpuJob]:
    """Those among Slurm's jobs that did not end; their keys are not known yet."""
    return [sharer for job in jobs if not job.ended for sharer in _asking(job)]


def write(folder: Path, queue: SharedGpuQueue) -> None:
    """Replace the file, whole at once. Raises OSError."""
    body = {"v": VERSION, "at_s": queue.at_s, "jobs": [asdict(sharer) for sharer in queue.jobs]}
    replace_file(folder / NAME, json.dumps(body, separators=(",", ":")).encode(), durable=False)


def read(folder: Path) -> SharedGpuQueue:
    """Read the last listing; an empty one where there is none. Raises InputError."""
    path = folder / NAME
    try:
        body = json.loads(path.read_text(encoding="utf-8"))
        if body["v"] != VERSION:
            raise ValueError("another version")
        return SharedGpuQueue(
            at_s=float(body["at_s"]), jobs=tuple(SharedGpuJob(**sharer) for sharer in body["jobs"])
        )
    except FileNotFoundError:
        return SharedGpuQueue()
    except OSError as error:
        raise InputError(str(path), f"cannot be read: {error.strerror}") from None
    except (ValueError, TypeError, KeyError) as error:
        raise InputError(str(path), f"is not a list of jobs: {error!r}") from None


def _asking(job: JobInfo) -> Iterable[SharedGpuJob]:
    for item in parse_gres(job.gres):
        if item.kind in SHARED_KINDS:
            yield SharedGpuJob(
                job=str(job.job_id),
                user=job.user_name,
                account=job.account,
                partition=job.partition,
                state=job.state,
                kind=item.kind,
                count=item.count,
            )
            return
