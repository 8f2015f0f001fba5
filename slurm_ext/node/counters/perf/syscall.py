"""The one edge to the kernel's event counters: perf_event_open(2), without perf(1) or a library."""

from __future__ import annotations

import ctypes
import os
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

HARDWARE, SOFTWARE, CACHE, RAW = 0, 1, 3, 4
TASK_CLOCK = 1
_CALLS = {"x86_64": 298, "aarch64": 241, "ppc64le": 319, "s390x": 331, "riscv64": 241}
_SIZE = 112  # PERF_ATTR_SIZE_VER5, Linux 4.1; a newer kernel takes it as it is
_TIMES = 1 | 2  # PERF_FORMAT_TOTAL_TIME_ENABLED, PERF_FORMAT_TOTAL_TIME_RUNNING
_INHERIT, _NO_KERNEL, _NO_HYPERVISOR = 1 << 1, 1 << 5, 1 << 6
_IN_CGROUP, _CLOSE_ON_EXEC = 1 << 2, 1 << 3
_READING = struct.Struct("=QQQ")


class PerfEvent:
    """One event to count: the kernel's type and config, and perf(1)'s name for it."""

    __slots__ = ("config", "kind", "label", "user_only")

    def __init__(self, label: str, kind: int, config: int, *, user_only: bool = False) -> None:
        self.label, self.kind, self.config = label, kind, config
        self.user_only = user_only

    def only_user(self) -> PerfEvent:
        """The same, less what the kernel does for the task: all that an ordinary user may count."""
        return PerfEvent(f"{self.label}:u", self.kind, self.config, user_only=True)


class PerfKernel:
    """Opens and reads counters; tests put another one in its place."""

    def __init__(self) -> None:
        self._call: Any = None
        self._number = _CALLS.get(os.uname().machine)

    def open(self, event: PerfEvent, *, pid: int = -1, cpu: int = -1) -> int:
        """A counter of one thread and the children it will have, or of one CPU. Raises OSError."""
        flags = _INHERIT if cpu < 0 else 0
        return self._open(event, pid, cpu, flags, _CLOSE_ON_EXEC)

    def open_in(self, event: PerfEvent, folder: int, cpu: int) -> int:
        """A counter of one control group (an open folder) on one CPU. Raises OSError."""
        return self._open(event, folder, cpu, 0, _CLOSE_ON_EXEC | _IN_CGROUP)

    def read(self, fd: int) -> tuple[int, int, int]:
        """Value, nanoseconds with something to count, and those of them counted. Raises OSError."""
        raw = os.read(fd, _READING.size)
        if len(raw) != _READING.size:
            raise OSError(0, "the counter is in error state")
        value, enabled, running = _READING.unpack(raw)
        return value, enabled, running

    def close(self, fd: int) -> None:
        """Give the counter back."""
        os.close(fd)

    def _open(self, event: PerfEvent, pid: int, cpu: int, flags: int, how: int) -> int:
        if self._number is None:
            raise OSError(38, f"no perf_event_open known for {os.uname().machine}")
        if event.user_only:
            flags |= _NO_KERNEL | _NO_HYPERVISOR
        attributes = struct.pack("=IIQQQQQ", event.kind, _SIZE, event.config, 0, 0, _TIMES, flags)
        if self._call is None:
            self._call = ctypes.CDLL(None, use_errno=True).syscall
        fd = self._call(
            ctypes.c_long(self._number),
            ctypes.c_char_p(attributes.ljust(_SIZE, b"\0")),
            ctypes.c_long(pid),
            ctypes.c_long(cpu),
            ctypes.c_long(-1),
            ctypes.c_ulong(how),
        )
        if fd < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return int(fd)
