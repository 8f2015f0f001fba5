"""A job's hardware counters: of its control group where it has one, else of its processes.

Counting costs the job nothing to speak of (the processor counts anyway) and us one descriptor for
each event and thread attached to, at most MAX_FDS.
"""

from __future__ import annotations

import os
import time

from slurm_ext.node.common import state
from slurm_ext.node.counters.perf import events as perf_events
from slurm_ext.node.counters.perf.cover import Coverage
from slurm_ext.node.counters.perf.syscall import SOFTWARE, PerfKernel
from slurm_ext.node.kernel.readings import MultiplexedCount

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from slurm_ext.node.counters.perf.syscall import PerfEvent
    from slurm_ext.node.kernel.cgroup import Cgroup
    from slurm_ext.node.kernel.processes import JobProcess

    Reading = tuple[float, float, float]  # value, enabled, running: nanoseconds

MAX_FDS = 512
WINDOW = -1  # the root of counters that are there for a while only
WINDOW_S = (0.02, 0.1)  # of counting at a time, if it is not all the time
SILENT_CYCLES = 1e8  # an event that is 0 beside so many cycles is not counted (KVM)
_TIMES = "perf_running_share"


class JobPerf:
    """Counts one job; `totals` never go down, also if the sampler was restarted."""

    def __init__(
        self,
        kept: Mapping[str, float],
        kernel: PerfKernel | None = None,
        proc: str = "/proc",
        duty: float | None = None,
    ) -> None:
        self._kernel, self._proc = kernel or PerfKernel(), proc
        info = f"{proc}/cpuinfo"
        wanted = perf_events.candidates(perf_events.vendor(info))
        most = perf_events.most_at_once(info)
        self.events, self.refused = perf_events.usable(self._kernel, wanted, most)
        self.cover = Coverage()
        self.full = False  # more processes than descriptors: the rest goes uncounted
        self._base = dict(kept)
        self._fds: dict[int, list[tuple[str, int]]] = {}  # by root: counter, descriptor
        self._buried: dict[str, list[float]] = {}
        self._estimates: dict[str, MultiplexedCount] = {}
        self._mode = ""
        self._duty = perf_events.duty(info) if duty is None else duty
        self._members: list[int] = []
        self._hardware = [n for n, event in self.events.items() if event.kind != SOFTWARE]
        software = [n for n in self.events if n not in self._hardware]
        self._lasting = list(self.events) if self._duty == 1.0 else software
        self._counted_s: float | None = None

    def sample(self, members: Mapping[int, JobProcess], group: Cgroup | None) -> None:
        """Attach to the job's new processes."""
        if not self.events or not members:
            return
        if not self._mode:
            whole = group and self._duty == 1.0 and self._attach_group(group)
            self._mode = "cgroup" if whole else "process"
        if self._mode == "process":
            fresh = self.cover.fresh(members, state.uptime_s())
            self._bury()
            for pid in fresh:
                self._attach(pid, self._lasting, pid)
        self._members = list(members)
        if self._duty < 1.0:
            self._count_for_a_while(time.monotonic())

    def totals(self) -> dict[str, tuple[str, float]]:
        """Counter to its source and value: counts, and seconds of `perf_task_clock`.

        `perf_running_share` is the share of the time for which the events had a place in the
        processor: 1.0 where nothing was estimated.
        """
        sums = self._sums()
        on_cpu = sums.get("perf_task_clock", [0.0])[0] if self._duty < 1.0 else 0.0
        for name, (value, enabled, running) in sums.items():
            if not self._silent(name, value, sums):
                whole = max(enabled, 0.0 if self._is_software(name) else on_cpu)
                self._estimates.setdefault(name, MultiplexedCount()).see(value, running, whole)
        counters = {}
        for name, estimate in self._estimates.items():
            if estimate.total is not None:
                factor = 1e-9 if self._is_software(name) else 1.0
                total = self._base.get(name, 0.0) + estimate.total * factor
                counters[name] = (f"perf/{self._mode}/{self.events[name].label}", total)
        share = self._running_share(sums, on_cpu)
        if share is not None:
            counters[_TIMES] = (f"perf/{self._mode}", share)
        return counters

    def close(self) -> None:
        """Give every counter back."""
        for root in list(self._fds):
            self._close(root)

    def _attach(self, pid: int, names: Sequence[str], root: int) -> None:
        """All threads of one process, these events; a process that just ended is left out."""
        try:
            threads = [int(name) for name in os.listdir(f"{self._proc}/{pid}/task")]
        except OSError:
            return
        if self._count() + len(threads) * len(names) > MAX_FDS:
            self.full = True
            return
        for thread in threads:
            self._open(root, [(self.events[n], n) for n in names], pid=thread)

    def _attach_group(self, group: Cgroup) -> bool:
        """One counter an event and CPU; False if that is not to be had."""
        folder = group.folders.get("unified") or group.folders.get("perf_event")
        cpus = _cpus(folder, MAX_FDS // len(self.events)) if folder else []
        if not folder or not cpus:
            return False
        try:
            opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            for cpu in cpus:
                for name, event in self.events.items():
                    fd = self._kernel.open_in(event, opened, cpu)
                    self._fds.setdefault(0, []).append((name, fd))
        except OSError:
            self._close(0)
        finally:
            os.close(opened)
        return 0 in self._fds

    def _open(self, root: int, events: Iterable[tuple[PerfEvent, str]], pid: int) -> None:
        for event, name in events:
            try:
                fd = self._kernel.open(event, pid=pid)
            except OSError:
                continue  # the thread ended, or the processor has no place for one more
            self._fds.setdefault(root, []).append((name, fd))

    def _bury(self) -> None:
        """Keep the counts of roots whose processes are all gone, and close their counters."""
        for root in [root for root in self._fds if not self.cover.needed(root)]:
            self._keep(root)

    def _keep(self, root: int) -> None:
        for name, reading in self._read(self._fds.get(root, ())):
            _add(self._buried, name, reading)
        self._close(root)

    def _sums(self) -> dict[str, list[float]]:
        sums = {name: list(values) for name, values in self._buried.items()}
        for fds in self._fds.values():
            for name, reading in self._read(fds):
                _add(sums, name, reading)
        return sums

    def _read(self, fds: Iterable[tuple[str, int]]) -> Iterable[tuple[str, Reading]]:
        for name, fd in fds:
            try:
                yield name, self._kernel.read(fd)
            except OSError:
                continue  # it has vanished: what it had counted stays

    def _is_software(self, name: str) -> bool:
        return self.events[name].kind == SOFTWARE

    def _silent(self, name: str, value: float, sums: Mapping[str, list[float]]) -> bool:
        return (
            not self._is_software(name)
            and value == 0
            and sums.get("perf_cycles", [0.0])[0] > SILENT_CYCLES
        )

    def _count_for_a_while(self, now: float) -> None:
        """Count for a bounded share of the time since the last call; the first time at once."""
        since_s = now - self._counted_s if self._counted_s is not None else 1.0
        window_s = min(WINDOW_S[1], since_s * self._duty)
        if window_s < WINDOW_S[0]:
            return
        for pid in self._members:
            self._attach(pid, self._hardware, WINDOW)
        time.sleep(window_s)
        self._keep(WINDOW)
        self._counted_s = now

    def _running_share(self, sums: Mapping[str, list[float]], on_cpu: float) -> float | None:
        counted = [v for name, v in sums.items() if not self._is_software(name)]
        enabled = sum(max(values[1], on_cpu) for values in counted)
        return min(1.0, sum(values[2] for values in counted) / enabled) if enabled else None

    def _count(self) -> int:
        return sum(len(fds) for fds in self._fds.values())

    def _close(self, root: int) -> None:
        for _, fd in self._fds.pop(root, ()):
            self._kernel.close(fd)


def _add(sums: dict[str, list[float]], name: str, reading: Reading) -> None:
    total = sums.setdefault(name, [0.0, 0.0, 0.0])
    sums[name] = [total[0] + reading[0], total[1] + reading[1], total[2] + reading[2]]


def _cpus(folder: str, most: int) -> list[int]:
    """Every CPU, for the job may be lent more; those it may use now where these are too many."""
    from slurm_ext.node.kernel.cpu_topology import cpu_numbers

    for path in (_ONLINE, os.path.join(folder, "cpuset.cpus.effective")):
        try:
            with open(path, encoding="ascii", errors="replace") as file:
                cpus = cpu_numbers(file.read(4096))
        except OSError:
            continue
        if 0 < len(cpus) <= most:
            return sorted(cpus)
    return []


_ONLINE = "/sys/devices/system/cpu/online"
