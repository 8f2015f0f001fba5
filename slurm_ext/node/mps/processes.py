"""Processes of this machine that are called like MPS; their environment says to which daemon."""

from __future__ import annotations

import os
import time

from slurm_ext.node.common.files import read_bounded
from slurm_ext.node.mps.rules import DEVICES, PIPE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable

OWN_GROUPS = "/proc/self/cgroup"
_COMM = "nvidia-cuda-mps"  # the kernel keeps 15 characters: control daemon and server alike
_DAEMON = {b"-d", b"-f", b"-S", b"--static-partitioning"}
_MAX_BYTES = 256 * 1024
_TRIES, _MOMENT_S = 5, 0.002
_EXITING = 0x4  # PF_EXITING, proc(5)


class MpsProcess:
    """One control daemon or server; `start` (ticks since boot) and pid together identify it.

    `pipe` is None if its environment cannot be read: somebody else's.
    """

    def __init__(self, pid: int, start: int, uid: int) -> None:
        self.pid, self.start, self.uid = pid, start, uid
        self.pipe: str | None = None
        self.devices: str | None = None
        self.server = False
        self.parent = 0


def running_processes(of_interest: Callable[[int, int], bool]) -> list[MpsProcess]:
    """Living processes called like MPS that `of_interest(pid, uid)`; of others nothing is read."""
    pids = [int(name) for name in os.listdir("/proc") if name.isdecimal()]
    processes = [
        _process(pid, of_interest) for pid in pids if pid != os.getpid() and _called_so(pid)
    ]
    return [process for process in processes if process is not None]


def foreign(
    root: str,
    gpu: str | None,
    uuid: str | None,
    processes: Iterable[MpsProcess],
    ours: Container[int] = (),
) -> list[int]:
    """Pids of control daemons on this GPU (index, UUID) that we did not start.

    Where nobody tells the index, a daemon that names any index may serve it.
    `ours` are the pids of those that we did; a pipe folder below `root` says so, too.
    """
    daemons = {
        process.parent if process.server else process.pid
        for process in processes
        if not (process.pipe and process.pipe.startswith(root + "/"))
        and _serves(process.devices, gpu, uuid)
    }
    return sorted(pid for pid in daemons if pid not in ours)


def daemon_and_servers(pipe: str, uid: int, processes: Iterable[MpsProcess]) -> list[MpsProcess]:
    """A user's daemon with this pipe folder, and its servers, also without that in their own."""
    own = [process for process in processes if process.uid == uid]
    heads = {process.pid for process in own if process.pipe == pipe}
    return [
        process
        for process in own
        if process.pid in heads or (process.server and process.parent in heads)
    ]


def is_alive(pid: int, start: int) -> bool:
    """True if the process that began at `start` still runs; a pid alone may be reused."""
    stat = _stat(pid)
    return stat is not None and stat[0] == start


def inside_job(job_id: int) -> bool:
    """True if this process is in the job's control group: what it starts ends with the job."""
    try:
        return b"/job_%d/" % job_id in read_bounded(OWN_GROUPS, _MAX_BYTES)
    except (OSError, ValueError):
        return False


def _serves(devices: str | None, gpu: str | None, uuid: str | None) -> bool:
    if not devices:
        return True  # a daemon that was told nothing serves them all
    named = [device.strip() for device in devices.split(",")]
    by_uuid = [
        device for device in named if uuid and device.startswith("GPU-") and uuid.startswith(device)
    ]
    by_index = [device for device in named if device.isdecimal() and gpu in (device, None)]
    return bool(by_index or by_uuid)


def _called_so(pid: int) -> bool:
    try:
        return read_bounded(f"/proc/{pid}/comm", 64).startswith(_COMM.encode())
    except (OSError, ValueError):
        return False


def _process(pid: int, of_interest: Callable[[int, int], bool]) -> MpsProcess | None:
    stat, uid = _stat(pid), _uid(pid)
    if stat is None or uid is None or not of_interest(pid, uid):
        return None
    process = MpsProcess(pid, stat[0], uid)
    process.parent = stat[1]
    try:
        argv = read_bounded(f"/proc/{pid}/cmdline", _MAX_BYTES)
    except (OSError, ValueError):
        return None
    process.server = b"nvidia-cuda-mps-server" in argv
    if not (process.server or _DAEMON & set(argv.split(b"\0"))):
        return None  # a control program that talks to a daemon
    environ = _environ(pid)
    if not environ and _ending(pid):
        return None
    values = dict(line.partition("=")[::2] for line in environ.split("\0"))
    process.pipe, process.devices = values.get(PIPE), values.get(DEVICES)
    return process


def _uid(pid: int) -> int | None:
    """Its real user, not root where it runs a program that is setuid."""
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            words = file.read(4096).partition(b"\nUid:")[2].split(maxsplit=1)
    except OSError:
        return None
    return int(words[0]) if words else None


def _environ(pid: int) -> str:
    """Its environment; "" where we may not read it, and of one that is just ending."""
    for _ in range(_TRIES):
        try:
            raw = read_bounded(f"/proc/{pid}/environ", _MAX_BYTES)
        except (OSError, ValueError):
            return ""  # somebody else's, or gone
        if raw or _ending(pid):
            return os.fsdecode(raw)
        time.sleep(_MOMENT_S)
    return ""


def _ending(pid: int) -> bool:
    """True if it is gone or exiting: the kernel takes its memory, with the environment, first."""
    stat = _stat(pid)
    return stat is None or bool(stat[2] & _EXITING)


def _stat(pid: int) -> tuple[int, int, int] | None:
    """Start time in ticks, parent and flags; None for one that is gone or a zombie."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read(4096).rpartition(b")")[2].split()
    except OSError:
        return None
    return None if fields[0] in (b"Z", b"X") else (int(fields[19]), int(fields[1]), int(fields[6]))
