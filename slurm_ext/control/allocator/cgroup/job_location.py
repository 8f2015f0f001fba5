"""Processes and control groups of a job: looked up each time, never held open."""

from dataclasses import dataclass, field
from pathlib import Path

from slurm_ext.node.kernel import cgroup
from slurm_ext.node.kernel.cgroup import Cgroup
from slurm_ext.node.kernel.processes import PROC, JobProcesses


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLocation:
    """One job on this node. `mount` and `proc` are other folders only in tests."""

    job_id: int
    uid: int
    node: str
    mount: str = cgroup.MOUNT
    proc: str = PROC
    _processes: list[JobProcesses] = field(default_factory=list, repr=False, compare=False)

    def group(self) -> Cgroup | None:
        """Slurm's control group of the job; None where it makes none."""
        return cgroup.find(self.job_id, self.uid, self.node, self.mount)

    def pids(self) -> set[int]:
        """The job's processes now."""
        group = self.group()
        if group is not None and (of_group := group.pids()):
            return of_group
        if not self._processes:  # it remembers from look to look who is not of the job
            self._processes.append(JobProcesses(self.job_id, self.uid, self.node, self.proc))
        processes = self._processes[0]
        of_group = processes.find()
        processes.update(of_group, switches=False)
        return of_group

    def v1_folder(self, controller: str) -> Path | None:
        """The job's version 1 group of a controller that `node.cgroup` does not read."""
        below = f"uid_{self.uid}/job_{self.job_id}"
        names = (f"slurm_{self.node}", "slurm")
        folders = (Path(self.mount, controller, name, below) for name in names)
        return next((folder for folder in folders if folder.is_dir()), None)

    def v2_folder(self) -> Path | None:
        """The job's version 2 group."""
        group = self.group()
        return Path(group.folders["unified"]) if group and group.version == 2 else None


class JobGoneError(Exception):
    """The job, its folder or its control group is not there any more."""


class UntrustedJobDirError(Exception):
    """The job's folder is not what the prolog made; nothing in it is touched."""
