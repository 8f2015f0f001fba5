"""The jobs that run on this node, from its spool; what users wrote is read with suspicion."""

import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from slurm_ext.control.allocator.cgroup.job_location import JobLocation
from slurm_ext.model.throughput.estimate import Estimate
from slurm_ext.model.throughput.estimate_codec import MAX_CHARS, read
from slurm_ext.node.common import state
from slurm_ext.node.common.files import FOLDER, read_bounded
from slurm_ext.node.common.spool_layout import Spool, split_key
from slurm_ext.node.record.summaries import collect

LOOK_S = 0.5  # longest that reading one job's folder may take
ENDED = ("end", "record", "done")


@dataclass(frozen=True, slots=True, kw_only=True)
class SpooledJob:
    """A job as the prolog recorded it."""

    key: str
    run_dir: str
    place: JobLocation
    cpus: int  # that Slurm gave it on this node
    gpus: int
    why_not: str | None  # why it is never touched
    lends: bool = False  # it may fall below its share, or lends to everybody, by its comment
    keeps: bool = False  # it neither lends nor borrows, by its comment
    account: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningJob:
    """A job and what its live training processes say of themselves."""

    job: SpooledJob
    summaries: tuple[Mapping[str, Any], ...]
    curve: Estimate | None  # as it came with the job
    agreed: bool = False  # it may fall below its share, or lends to everybody
    keeps: bool = False  # it neither lends nor borrows


class SpooledJobs:
    """The node's jobs; what the prolog wrote is read once a job."""

    def __init__(self, spool: Spool) -> None:
        self.spool = spool
        self._known: dict[str, SpooledJob] = {}

    def keys(self) -> frozenset[str]:
        """Jobs that have started and not ended."""
        return frozenset(self.spool.keys("json")) - frozenset(self.spool.keys(*ENDED))

    def look(self) -> tuple[RunningJob, ...]:
        """Every job that runs, with its live summaries."""
        keys = self.keys()
        self._known = {key: job for key, job in self._known.items() if key in keys}
        jobs = []
        for key in sorted(keys):
            job = self._known.get(key) or _job(self.spool, key)
            if job is not None:
                self._known[key] = job
                jobs.append(_running(job))
        return tuple(jobs)


def alive(pid: object) -> bool:
    """True if the process lives and is no zombie."""
    if type(pid) is not int or not 0 < pid < 1 << 22:
        return False
    with suppress(OSError), open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 - a file of /proc
        return file.read(512).rpartition(b") ")[2][:1] not in (b"Z", b"X", b"")
    return False


def _job(spool: Spool, key: str) -> SpooledJob | None:
    saved = state.load(spool, key, "json")
    if saved is None or saved.get("boot_id") != state.boot_id():
        return None
    identity, allocation = saved["identity"], saved.get("allocation") or {}
    job_id, _ = split_key(key)
    cpus = allocation.get("cpus")
    why_not = None
    if allocation.get("num_nodes") not in (None, 1):
        why_not = "it runs on several nodes"
    elif type(cpus) is not int or cpus < 1:
        why_not = "its CPUs are not known"
    place = JobLocation(job_id=job_id, uid=int(identity["uid"]), node=str(identity["node"]))
    return SpooledJob(
        key=key,
        run_dir=spool.run_dir(key),
        place=place,
        cpus=cpus or 0,
        gpus=len(allocation.get("gpus") or ()),
        why_not=why_not,
        lends=saved.get("lends") is True,
        keeps=saved.get("keeps") is True,
        account=identity.get("account"),
    )


def _running(job: SpooledJob) -> RunningJob:
    summaries = collect(job.run_dir, job.place.uid, time.monotonic() + LOOK_S)
    live = [s for s in summaries.summaries if not s.get("finished") and alive(s.get("pid"))]
    word = _noted(job, "lend", 1)
    return RunningJob(
        job=job,
        summaries=tuple(live),
        curve=_curve(job) if live else None,
        agreed=job.lends or word == b"1",
        keeps=job.keeps or word == b"0",
    )


def _curve(job: SpooledJob) -> Estimate | None:
    try:
        return read(_noted(job, "curve", MAX_CHARS).decode("ascii"))
    except ValueError:
        return None


def _noted(job: SpooledJob, name: str, most: int) -> bytes:
    """A file that the task prolog, or the user, wrote into the job's folder; empty if unsound."""
    try:
        folder = os.open(job.run_dir, FOLDER)
    except OSError:
        return b""
    try:
        return read_bounded(name, most, owner=job.place.uid, dir_fd=folder)
    except (OSError, ValueError):
        return b""
    finally:
        os.close(folder)
