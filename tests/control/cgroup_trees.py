"""Control groups as Slurm lays them out: in plain files, 22.05 (version 1) and 24.11 (2); real."""

import os
import signal
from contextlib import suppress
from pathlib import Path

from slurm_ext.control.allocator.cgroup.job_location import JobLocation

CPUSETS = Path("/sys/fs/cgroup/cpuset")  # of this machine's kernel, version 1


def real_cpusets(node: str, job_id: int, cores: str, *, users: str = "") -> list[Path]:
    """Cpusets of a job of ours with one batch step, outermost first; those that are there stay.

    `users`: cores of the group of all its user's jobs, where that has more.
    """
    user = CPUSETS / f"slurm_{node}/uid_{os.geteuid()}"
    job = user / f"job_{job_id}"
    whole = (CPUSETS / "cpuset.cpus").read_text()
    wanted = {user.parent: whole, user: users or cores, job: cores, job / "step_batch": cores}
    for folder, text in wanted.items():
        if not folder.is_dir():
            folder.mkdir()
            (folder / "cpuset.mems").write_text((CPUSETS / "cpuset.mems").read_text())
            (folder / "cpuset.cpus").write_text(text)
    return list(wanted)


def removed(folder: Path) -> bool:
    """Kill what is in a real group; True once the group is gone."""
    with suppress(OSError):
        for pid in (folder / "cgroup.procs").read_text().split():
            with suppress(OSError):
                os.kill(int(pid), signal.SIGKILL)
        folder.rmdir()
    return not folder.exists()


def version_1(mount: Path, place: JobLocation, cores: str) -> Path:
    """A job of one batch step under ConstrainCores=yes; the job's cpuset."""
    user = mount / "cpuset" / f"slurm_{place.node}" / f"uid_{place.uid}"
    job = user / f"job_{place.job_id}"
    for folder in (user, job, job / "step_batch"):
        folder.mkdir(parents=True)
        (folder / "cpuset.cpus").write_text(f"{cores}\n")
    freezer = mount / "freezer" / f"slurm_{place.node}" / f"uid_{place.uid}"
    (freezer / f"job_{place.job_id}").mkdir(parents=True)
    (freezer / f"job_{place.job_id}" / "cgroup.procs").write_text("")
    return job


def version_2(mount: Path, place: JobLocation, cores: str) -> Path:
    """The same under version 2; step and task follow the job."""
    mount.mkdir(exist_ok=True)
    (mount / "cgroup.controllers").write_text("cpuset cpu io memory pids\n")
    job = mount / "system.slice" / f"{place.node}_slurmstepd.scope" / f"job_{place.job_id}"
    for folder, own in ((job, cores), (job / "step_batch", cores), (job / "step_batch/user", "")):
        folder.mkdir(parents=True)
        (folder / "cgroup.controllers").write_text("cpuset cpu memory\n")
        (folder / "cpuset.cpus").write_text(f"{own}\n")
        (folder / "cpu.max").write_text("max 100000\n")
        (folder / "cgroup.procs").write_text("")
    return job
