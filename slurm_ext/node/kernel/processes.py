"""A job's processes in /proc: who belongs to it, and totals that never go down.

A process that ends takes its counters with it. Linux adds most of them to the parent that waits
for it; what no living parent of the job took over is kept here.
"""

from __future__ import annotations

import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

PROC = "/proc"
MAX_MEMBERS = 1024
MAX_THREADS = 512  # beyond, switches are not counted: reading them would cost too much
FRESH_S = 5.0  # a process younger than this may still become the job's by exec
REFRESH_SCANS = 64
# Prolog, epilog and what they left behind, this process too (a task says prolog_task).
_HOOKS = (b"\0SLURM_SCRIPT_CONTEXT=prolog_slurmd\0", b"\0SLURM_SCRIPT_CONTEXT=epilog_slurmd\0")
_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")

NAMES = ("cpu_user", "cpu_system", "major_faults", "io_read", "io_write")


class JobProcess:
    """One process at one moment; `values` in the order of NAMES, waited-for children included."""

    __slots__ = ("parent", "rss_bytes", "session", "started", "switches", "values")

    def __init__(self, fields: Sequence[str], io: tuple[float | None, float | None]) -> None:
        numbers = [int(field) for field in fields[1:22]]
        self.parent, self.session, self.started = numbers[0], numbers[2], numbers[18]
        self.rss_bytes = numbers[20] * _PAGE_BYTES
        self.switches: float | None = None
        self.values: list[float | None] = [
            (numbers[10] + numbers[12]) * _TICK_S,
            (numbers[11] + numbers[13]) * _TICK_S,
            float(numbers[8] + numbers[9]),
            *io,
        ]


class JobProcesses:
    """Follows the processes of one job from sample to sample."""

    def __init__(self, job_id: int, uid: int, node: str, proc: str = PROC) -> None:
        self.proc, self.uid = proc, uid
        self._marks = (b"\0SLURM_JOB_ID=%d\0" % job_id, b"\0SLURMD_NODENAME=")
        self._node = os.fsencode(node)
        self._foreign: set[int] = set()
        self._scans = 0
        self.members: dict[int, JobProcess] = {}
        self.departed: list[float | None] = [None] * len(NAMES)
        self.departed_switches = 0.0
        self.threads_bearable = True

    def find(self) -> set[int]:
        """Pids of the job by environment and descent, where no control group names them."""
        listed = {int(name) for name in os.listdir(self.proc) if name.isdecimal()}
        self._scans += 1
        self._foreign = self._foreign & listed if self._scans % REFRESH_SCANS else set()
        pids = {pid for pid in self.members if pid in listed and self._goes_on(pid)}
        for pid in sorted(listed - self._foreign - pids):
            if self._is_ours(pid, pids):
                pids.add(pid)
        return pids

    def update(self, pids: Iterable[int], *, switches: bool) -> None:
        """Read the processes `pids`; keep what those that ended had counted."""
        now = {}
        for pid in sorted(pids)[:MAX_MEMBERS]:
            process = self._read(pid)
            if process is not None:
                before = self.members.get(pid)
                process.switches = before.switches if before else None
                now[pid] = process
        if switches:
            self._read_switches(now)
        for pid, process in self.members.items():
            if pid not in now or now[pid].started != process.started:
                self._bury(process, now)
        self.members = now

    def totals(self) -> dict[str, float | None]:
        """Counters of the whole job by name; None if no process could be read."""
        sums = list(self.departed)
        for process in self.members.values():
            sums = [_plus(a, b) for a, b in zip(sums, process.values)]
        return {**dict(zip(NAMES, sums)), "context_switches": self._switches()}

    def rss_bytes(self) -> float | None:
        """Resident memory of all processes now; shared pages count once for each."""
        sizes = [process.rss_bytes for process in self.members.values()]
        return float(sum(sizes)) if sizes else None

    def _goes_on(self, pid: int) -> bool:
        """False if the pid is another process's by now, which may be anybody's."""
        fields = _stat_fields(self.proc, pid)
        return fields is not None and int(fields[19]) == self.members[pid].started

    def _is_ours(self, pid: int, pids: set[int]) -> bool:
        try:
            owner = os.stat(f"{self.proc}/{pid}").st_uid
        except OSError:
            return False
        fields = _stat_fields(self.proc, pid)
        if fields is None:
            return False
        if owner == self.uid and (int(fields[1]) in pids or self._names_job(pid)):
            return True
        if _uptime_s() - int(fields[19]) * _TICK_S > FRESH_S:
            self._foreign.add(pid)
        return False

    def _names_job(self, pid: int) -> bool:
        try:
            with open(f"{self.proc}/{pid}/environ", "rb") as file:
                env = b"\0" + file.read(1 << 20)
        except OSError:
            return False
        job, node = self._marks
        named = env.partition(node)[2].partition(b"\0")[0]
        return job in env and named in (b"", self._node) and not any(h in env for h in _HOOKS)

    def _read(self, pid: int) -> JobProcess | None:
        fields = _stat_fields(self.proc, pid)
        return JobProcess(fields, _io(self.proc, pid)) if fields is not None else None

    def _bury(self, gone: JobProcess, now: dict[int, JobProcess]) -> None:
        """Keep a gone process's counters, unless a living ancestor in the job inherited them."""
        self.departed_switches += gone.switches or 0.0
        parent = gone.parent
        for _ in range(len(self.members)):
            if parent in now:
                return
            if parent not in self.members:
                break
            parent = self.members[parent].parent
        self.departed = [_plus(a, b) for a, b in zip(self.departed, gone.values)]

    def _read_switches(self, now: dict[int, JobProcess]) -> None:
        left = MAX_THREADS
        for pid, process in now.items():
            switches, threads = _switches(self.proc, pid, left)
            left -= threads
            process.switches = switches if switches is not None else process.switches
        self.threads_bearable = self.threads_bearable and left > 0

    def _switches(self) -> float | None:
        counted = [p.switches for p in self.members.values() if p.switches is not None]
        if not self.threads_bearable or not (counted or self.departed_switches):
            return None
        return self.departed_switches + sum(counted)


def _plus(a: float | None, b: float | None) -> float | None:
    return b if a is None else a if b is None else a + b


def _stat_fields(proc: str, pid: int) -> list[str] | None:
    """Fields of /proc/<pid>/stat from the state on: the name before may hold anything."""
    try:
        with open(f"{proc}/{pid}/stat", "rb") as file:
            text = file.read(4096).decode("ascii", "replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return fields if len(fields) > 21 else None


def _io(proc: str, pid: int) -> tuple[float | None, float | None]:
    try:
        with open(f"{proc}/{pid}/io", encoding="ascii") as file:
            table = dict(line.split(": ") for line in file.read(1024).splitlines())
        return float(table["read_bytes"]), float(table["write_bytes"])
    except (OSError, KeyError, ValueError):
        return None, None


def _switches(proc: str, pid: int, max_threads: int) -> tuple[float | None, int]:
    """Switches of a process's living threads, and how many were read."""
    try:
        threads = os.listdir(f"{proc}/{pid}/task")[: max(0, max_threads)]
        total = sum(_thread_switches(f"{proc}/{pid}/task/{tid}/status") for tid in threads)
    except (OSError, ValueError):
        return None, 0
    return float(total), len(threads)


def _thread_switches(path: str) -> int:
    with open(path, "rb") as file:
        lines = file.read(8192).splitlines()[-2:]
    return sum(int(line.rpartition(b"\t")[2]) for line in lines if b"ctxt_switches" in line)


def _uptime_s() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)
