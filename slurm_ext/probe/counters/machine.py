"""Cores and memory that this process may use, by affinity, cgroup (v1 and v2) and Slurm."""

from __future__ import annotations

import contextlib
import math
import os
import resource
import threading
from typing import Iterator, Mapping

MIB = 1024 * 1024
_UNLIMITED = 1 << 60  # cgroup v1 writes a number near 2**63 for no limit


def cores(proc: str = "/proc/self", root: str = "/sys/fs/cgroup") -> float:
    """Cores that this process can keep busy: its affinity, less where a cgroup's quota binds."""
    bound = float(len(os.sched_getaffinity(0)))
    for folder in _folders("cpu", proc, root):
        quota = _quota(folder)
        if quota:
            bound = min(bound, quota)
    return bound


def _quota(folder: str) -> float | None:
    quota = (_read(folder, "cpu.max") or "").split()  # v2: "200000 100000" or "max 100000"
    if not quota:
        quota = [_read(folder, "cpu.cfs_quota_us") or "", _read(folder, "cpu.cfs_period_us") or ""]
    if len(quota) == 2 and quota[0].isdecimal() and quota[1].isdecimal() and int(quota[1]):
        return int(quota[0]) / int(quota[1])
    return None


def room_bytes(
    own_bytes: int,
    env: Mapping[str, str] = os.environ,
    proc: str = "/proc/self",
    root: str = "/sys/fs/cgroup",
    meminfo: str = "/proc/meminfo",
) -> int | None:
    """Memory that the job may still take; None if nothing bounds it.

    `own_bytes` is what this process and its workers hold: the measure against Slurm's limit where
    no cgroup holds the job to it.
    """
    rooms = [room for room in map(_cgroup_room, _folders("memory", proc, root)) if room is not None]
    slurm = _slurm_limit(env)
    if slurm is not None:
        rooms.append(slurm - own_bytes)
    available = _available(meminfo)
    if available is not None:
        rooms.append(available)
    return min(rooms) if rooms else None


def shared_room_bytes(folder: str = "/dev/shm") -> int | None:  # noqa: S108 - torch's own place
    """Room for batches on their way from workers; None where the system does not say."""
    try:
        stat = os.statvfs(folder)
    except OSError:
        return None
    return stat.f_bavail * stat.f_frsize


def files_left(folder: str = "/proc/self/fd") -> int | None:
    """Files that this process may still open; None where nothing bounds them."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    try:
        return None if most == resource.RLIM_INFINITY else most - len(os.listdir(folder))
    except OSError:
        return None


def tasks_left(proc: str = "/proc/self", root: str = "/sys/fs/cgroup") -> int | None:
    """Processes and threads that the job may still start; None where no cgroup bounds them."""
    found = [(_number(each, "pids.max"), each) for each in _folders("pids", proc, root)]
    rooms = [most - (_number(each, "pids.current") or 0) for most, each in found if most]
    return min(rooms) if rooms else None


def ranks_here(env: Mapping[str, str] = os.environ) -> int:
    """Training processes that share this one's cores, as torch's launcher says; 1: it does not."""
    return _decimal(env, "LOCAL_WORLD_SIZE") or 1


def _cgroup_room(folder: str) -> int | None:
    for limit, usage, cache in (
        ("memory.max", "memory.current", "inactive_file"),
        ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    ):
        most, used = _number(folder, limit), _number(folder, usage)
        if most is not None and used is not None and most < _UNLIMITED:
            return most - used + _stat(folder, cache)
    return None


def _stat(folder: str, key: str) -> int:
    for line in (_read(folder, "memory.stat") or "").splitlines():
        name, _, value = line.partition(" ")
        if name == key and value.isdecimal():
            return int(value)
    return 0


def _slurm_limit(env: Mapping[str, str]) -> int | None:
    """Bytes of one task's share of the job's memory on this node; None: unlimited or no job."""
    whole = _decimal(env, "SLURM_MEM_PER_NODE")
    if whole is None:
        per_cpu, cpus = _decimal(env, "SLURM_MEM_PER_CPU"), _decimal(env, "SLURM_CPUS_ON_NODE")
        whole = per_cpu * cpus if per_cpu and cpus else None
    tasks = env.get("SLURM_TASKS_PER_NODE", "1").partition("(")[0].partition(",")[0]
    return whole * MIB // max(1, int(tasks) if tasks.isdecimal() else 1) if whole else None


def _available(meminfo: str) -> int | None:
    for line in (_read("", meminfo) or "").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return None


def _folders(controller: str, proc: str, root: str) -> Iterator[str]:
    """This process's cgroup folder of a controller and every one above it."""
    for line in (_read(proc, "cgroup") or "").splitlines():
        number, _, rest = line.partition(":")
        names, _, path = rest.partition(":")
        mounts = [names, controller] if controller in names.split(",") else []
        if number == "0" and not names:
            mounts = ["", "unified"]
        for mount in mounts:
            base = os.path.join(root, mount)
            while os.path.isdir(base + path):
                yield base + path
                if path in ("", "/"):
                    break
                path = os.path.dirname(path)


def private_bytes(proc: str = "/proc/self") -> int | None:
    """Memory that only this process holds: what one more of its kind would cost."""
    text = _read(proc, "smaps_rollup")
    if text is None:
        return None
    lines = (line.split() for line in text.splitlines())
    return sum(int(words[1]) * 1024 for words in lines if words[0] == "Private_Dirty:")


class _ProcFile:
    """A file of /proc about this thread, kept open: a read costs microseconds, an open ten."""

    def __init__(self, name: str) -> None:
        self.path = f"/proc/thread-self/{name}"
        self.thread = 0
        self.handle = -1

    def text(self) -> bytes:
        """Text of the file for this thread; a forked child opens it again."""
        thread = threading.get_native_id()
        if thread != self.thread:
            self.close()
            self.handle = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
            self.thread = thread
        return os.pread(self.handle, 64, 0)

    def close(self) -> None:
        """Give the descriptor back."""
        handle, self.handle = self.handle, -1
        if handle >= 0:
            with contextlib.suppress(OSError):  # a program may close all that it did not open
                os.close(handle)

    __del__ = close


class _OwnFiles(threading.local):
    """Files of /proc of each thread, which ask nobody for the time between open and close.

    They are closed with their thread: its part of a `threading.local` ends then.
    """

    def __init__(self) -> None:
        self.schedstat = _ProcFile("schedstat")


_OWN = _OwnFiles()


def queued_s() -> float:
    """Seconds that this thread was ready to run and waited for a core; NaN: the kernel is silent.

    Linux, Documentation/scheduler/sched-stats: on a CPU, waiting for one (ns), time slices. A
    quota's throttling counts as waiting.
    """
    try:
        _, waiting, slices = _OWN.schedstat.text().split()
        return int(waiting) / 1e9 if int(slices) else math.nan  # a thread that asks has had one
    except (OSError, ValueError):
        return math.nan


def bytes_read(proc: str = "/proc/self") -> int | None:
    """Bytes that this process has read by read() so far, page cache included."""
    text = _read(proc, "io")
    return int(text.split(None, 2)[1]) if text and text.startswith("rchar:") else None


def _decimal(env: Mapping[str, str], name: str) -> int | None:
    text = env.get(name, "")
    return int(text) if text.isdecimal() and int(text) else None


def _number(folder: str, name: str) -> int | None:
    text = (_read(folder, name) or "").strip()
    return int(text) if text.isdecimal() else None


def _read(folder: str, name: str) -> str | None:
    """A small file's text; None if it cannot be read."""
    try:
        handle = os.open(os.path.join(folder, name), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return os.read(handle, 1 << 16).decode("ascii", "replace")
    except OSError:
        return None
    finally:
        os.close(handle)
