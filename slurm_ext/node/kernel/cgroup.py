"""A job's control group, version 1 or 2: where it is and what it counts.

Its totals include processes that have ended, and it is removed with the last one, before the
epilog. Every reader answers None for what this kernel or configuration does not count.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MOUNT = "/sys/fs/cgroup"
MAX_GROUPS = 512
_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
_CONTROLLERS = ("cpuacct", "memory", "cpu", "blkio", "freezer")


class Cgroup:
    """The job's groups: one folder (version 2), or one a controller (version 1)."""

    def __init__(self, folders: Mapping[str, str]) -> None:
        self.folders = folders
        self.version = 2 if "unified" in folders else 1
        self.source = f"cgroup/v{self.version}"

    def exists(self) -> bool:
        """True while the job has a group."""
        return any(os.path.isdir(folder) for folder in self.folders.values())

    def pids(self) -> set[int]:
        """Processes in the job's group and those below it."""
        preferred = ("unified", "freezer", "memory", "cpuacct", "cpu")
        top = next(self.folders[name] for name in preferred if name in self.folders)
        texts = (_read(os.path.join(folder, "cgroup.procs")) or "" for folder in _below(top))
        return {int(pid) for text in texts for pid in text.split()}

    def read(self) -> dict[str, float | None]:
        """Counters by name, in seconds, bytes and counts."""
        return _read_v2(self.folders["unified"]) if self.version == 2 else _read_v1(self.folders)


def find(job_id: int, uid: int, node: str, mount: str = MOUNT) -> Cgroup | None:
    """The job's group where Slurm puts it; None if the job has none (or not yet)."""
    if os.path.exists(os.path.join(mount, "cgroup.controllers")):
        return _find_v2(job_id, node, mount)
    # Several slurmd on one machine: the node's own name comes before the plain one.
    for slurm in (f"slurm_{node}", "slurm"):
        below = f"{slurm}/uid_{uid}/job_{job_id}"
        folders = {name: os.path.join(mount, name, below) for name in _CONTROLLERS}
        existing = {name: folder for name, folder in folders.items() if os.path.isdir(folder)}
        if existing:
            return Cgroup(existing)
    return None


def of_process(text: str, job_id: int, mount: str = MOUNT) -> Cgroup | None:
    """The job's group from a process's `/proc/<pid>/cgroup`, for unusual places."""
    folders = {}
    for line in text.splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        head, mark, _ = f"{path}/".partition(f"/job_{job_id}/")
        if mark:
            below = f"{head}/job_{job_id}".lstrip("/")
            names = ["unified"] if number == "0" else controllers.split(",")
            for name in names:
                root = mount if name == "unified" else os.path.join(mount, name)
                folders[name] = os.path.join(root, below)
    usable = {n: f for n, f in folders.items() if n in ("unified", *_CONTROLLERS)}
    return Cgroup(usable) if usable and any(map(os.path.isdir, usable.values())) else None


def _find_v2(job_id: int, node: str, mount: str) -> Cgroup | None:
    for scope in (f"{node}_slurmstepd.scope", "slurmstepd.scope"):
        folder = os.path.join(mount, "system.slice", scope, f"job_{job_id}")
        if os.path.isdir(folder):
            return Cgroup({"unified": folder})
    return None


def _read_v1(folders: Mapping[str, str]) -> dict[str, float | None]:
    cpu = _table(folders.get("cpuacct"), "cpuacct.stat")
    throttled = _table(folders.get("cpu"), "cpu.stat").get("throttled_time")
    stat = _table(folders.get("memory"), "memory.stat")
    read, written = _blkio(folders.get("blkio"))
    return {
        "cpu_user": _scaled(cpu.get("user"), _TICK_S),
        "cpu_system": _scaled(cpu.get("system"), _TICK_S),
        "cpu_throttled": _scaled(throttled, 1e-9),
        "mem_peak": _single(folders.get("memory"), "memory.max_usage_in_bytes"),
        "mem_now": _single(folders.get("memory"), "memory.usage_in_bytes"),
        "mem_held_peak": _held(stat, "total_rss", "total_shmem"),
        "major_faults": stat.get("total_pgmajfault", stat.get("pgmajfault")),
        "oom_kills": _table(folders.get("memory"), "memory.oom_control").get("oom_kill"),
        "io_read": read,
        "io_write": written,
    }


def _read_v2(folder: str) -> dict[str, float | None]:
    cpu, stat = _table(folder, "cpu.stat"), _table(folder, "memory.stat")
    read, written = _io_stat(_read(os.path.join(folder, "io.stat")))
    return {
        "cpu_user": _scaled(cpu.get("user_usec"), 1e-6),
        "cpu_system": _scaled(cpu.get("system_usec"), 1e-6),
        "cpu_throttled": _scaled(cpu.get("throttled_usec"), 1e-6),
        "mem_peak": _single(folder, "memory.peak"),
        "mem_now": _single(folder, "memory.current"),
        "mem_held_peak": _held(stat, "anon", "shmem"),
        "major_faults": stat.get("pgmajfault"),
        "oom_kills": _table(folder, "memory.events").get("oom_kill"),
        "io_read": read,
        "io_write": written,
        **{
            f"pressure_{what}_some": pressure_s(_read(os.path.join(folder, f"{what}.pressure")))
            for what in ("cpu", "memory", "io")
        },
    }


def _held(stat: Mapping[str, float], own: str, common: str) -> float | None:
    """Bytes that its processes hold now, without the file cache, which the kernel takes back."""
    return stat[own] + stat.get(common, 0.0) if own in stat else None


def pressure_s(text: str | None) -> float | None:
    """Seconds in which some task waited, from a pressure file's `some … total=<microseconds>`."""
    for line in (text or "").splitlines():
        if line.startswith("some "):
            return _scaled(_number(line.rpartition("total=")[2]), 1e-6)
    return None


def _blkio(folder: str | None) -> tuple[float | None, float | None]:
    """Bytes read and written from lines such as `254:0 Read 4096`; None if nothing counts."""
    text = folder and _read(os.path.join(folder, "blkio.throttle.io_service_bytes_recursive"))
    rows = [line.split() for line in (text or "").splitlines()]
    counted = [row for row in rows if len(row) == 3 and row[2].isdecimal()]
    if not counted:
        return None, None
    sums = [sum(int(row[2]) for row in counted if row[1] == what) for what in ("Read", "Write")]
    return float(sums[0]), float(sums[1])


def _io_stat(text: str | None) -> tuple[float | None, float | None]:
    """Bytes from lines such as `254:0 rbytes=1 wbytes=2 …`; None if there is no controller."""
    if text is None:
        return None, None
    pairs = [word.partition("=") for word in text.split()]
    sums = [
        sum(int(value) for name, _, value in pairs if name == what and value.isdecimal())
        for what in ("rbytes", "wbytes")
    ]
    return float(sums[0]), float(sums[1])


def _below(top: str) -> Iterator[str]:
    """`top` and the groups under it, at most MAX_GROUPS."""
    waiting = [top]
    for _ in range(MAX_GROUPS):
        if not waiting:
            return
        folder = waiting.pop()
        yield folder
        try:
            with os.scandir(folder) as entries:
                waiting += [e.path for e in entries if e.is_dir(follow_symlinks=False)]
        except OSError:
            continue


def _table(folder: str | None, name: str) -> dict[str, float]:
    """`key value` lines as numbers."""
    text = folder and _read(os.path.join(folder, name))
    rows = [line.split() for line in (text or "").splitlines()]
    return {row[0]: float(row[1]) for row in rows if len(row) == 2 and row[1].isdecimal()}


def _single(folder: str | None, name: str) -> float | None:
    return _number(_read(os.path.join(folder, name))) if folder else None


def _number(text: str | None) -> float | None:
    stripped = (text or "").strip()
    return float(stripped) if stripped.isdecimal() else None


def _scaled(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def _read(path: str) -> str | None:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read(65536)
    except OSError:
        return None
