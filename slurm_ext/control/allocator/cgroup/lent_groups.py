"""Groups of version 1 of our own for a job's lent workers, and of nobody else.

They lie beside Slurm's, at the root of `cpuset`, and of `cpu` where that is mounted by itself: no
group of Slurm's is changed, and a step that starts finds everything as Slurm left it. Slurm finds a
job's processes by the freezer, and holds its memory by `memory`: there the workers stay.
"""

from collections.abc import Collection, Iterable
from contextlib import suppress
from pathlib import Path

from slurm_ext.control.allocator.cgroup.cores import format_cores
from slurm_ext.control.allocator.cgroup.group import read, write
from slurm_ext.control.allocator.cgroup.job_location import JobLocation
from slurm_ext.control.allocator.cgroup.lent_threads import parent_of

LEAST_SHARES = "2"  # the kernel's least, beside 1024 of a usual group
_ATTEMPTS = 5  # at an empty group: a process may fork while it is moved out


class LentGroups:
    """One job's groups; they exist while something is lent to it."""

    def __init__(self, place: JobLocation) -> None:
        self._place = place
        self._name = f"dlqueue_lent_{place.node}_{place.job_id}"

    def enter(self, pids: Collection[int], cores: frozenset[int]) -> None:
        """Move these processes into our groups, which may use `cores`. JobGoneError, OSError."""
        job = self._place.v1_folder("cpuset")
        if job is not None:
            folder = self._folder("cpuset")
            folder.mkdir(exist_ok=True)
            write(folder, "cpuset.mems", read(job, "cpuset.mems") or "0")
            write(folder, "cpuset.cpus", format_cores(cores))
            _move(folder, pids)
        root = Path(self._place.mount, "cpu")
        if (root / "cpu.shares").exists() and not (root / "cpuacct.usage").exists():
            self._enter_idle(self._folder("cpu"), pids)

    def members(self) -> set[int]:
        """Processes in our groups."""
        texts = [read(folder, "cgroup.procs") or "" for folder in self._folders()]
        return {int(pid) for text in texts for pid in text.split()}

    def leave(self) -> bool:
        """Move everything back to where its parent is, and remove the groups; False: not yet."""
        removed = [self._removed(folder) for folder in self._folders()]
        return all(removed)

    def _enter_idle(self, folder: Path, pids: Collection[int]) -> None:
        """A group that waits for all others; the processes' own policy alone says it within one."""
        with suppress(OSError):
            folder.mkdir(exist_ok=True)
            if (folder / "cpu.idle").exists():
                (folder / "cpu.idle").write_text("1")
            else:
                (folder / "cpu.shares").write_text(LEAST_SHARES)
            _move(folder, pids)

    def _folder(self, controller: str) -> Path:
        return Path(self._place.mount, controller, self._name)

    def _folders(self) -> list[Path]:
        folders = map(self._folder, ("cpu", "cpuset"))
        return [folder for folder in folders if folder.is_dir()]

    def _removed(self, folder: Path) -> bool:
        for _ in range(_ATTEMPTS):
            for pid in (read(folder, "cgroup.procs") or "").split():
                _move(self._home(folder, int(pid)), [int(pid)])
            with suppress(OSError):
                folder.rmdir()
                return True
        return not folder.is_dir()

    def _home(self, folder: Path, pid: int) -> Path:
        """The group of its parent; the job's if that is none of the job's; else the root."""
        controller = folder.parent.name
        job = self._place.v1_folder(controller)
        parent = parent_of(self._place, pid)
        with suppress(OSError):
            for line in Path(self._place.proc, str(parent), "cgroup").read_text().splitlines():
                _, names, path = line.split(":", 2)
                group = folder.parent / path.lstrip("/")
                if controller in names.split(",") and (job is None or group.is_relative_to(job)):
                    return folder.parent if group == folder else group
        return job or folder.parent


def _move(folder: Path, pids: Iterable[int]) -> None:
    """Move processes with their threads; their children follow them from now on."""
    inside = (read(folder, "cgroup.procs") or "").split()
    for pid in pids:
        if str(pid) not in inside:
            with suppress(OSError):
                (folder / "cgroup.procs").write_text(str(pid))
