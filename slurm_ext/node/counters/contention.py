"""A short probe of what a job and its node do to each other's memory traffic; off by default.

`passive`: we copy a little memory before the job begins and again while it runs. How much slower
that became is the pressure that the job adds to what was there.
`active`: for some tenths of a second idle processors copy memory, at the lowest priority, in turns
with quiet; how much the job's own instructions a second fall is its sensitivity.

Both work on idle processors that no job may use, or not at all: a node whose jobs are not bound to
processors is never probed. `active` needs hardware counters, and a node with no other job on it.
"""

from __future__ import annotations

import os
import signal
import time

from slurm_ext.node.kernel.cpu_topology import cpu_numbers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from typing import NoReturn

OFF, PASSIVE, ACTIVE = "off", "passive", "active"
AT_S = (2.0, 5.0, 15.0)  # after the job's start, when it is loading, and when it is at work
COPY_BYTES = 16 << 20
COPIES = 5
IDLE = 0.95  # of the time since the last look
TURNS = 4
TURN_S = 0.05
MOST_STRESSED = 4  # processors
_SOURCE = "contention"


class Contention:
    """One job's probe; `totals` as the meter's, `why` says why there is nothing."""

    def __init__(self, mode: str, proc: str = "/proc") -> None:
        self.mode = mode
        self.why: str | None = None
        self._proc = proc
        self._quiet: float | None = None
        self._during: list[float] = []
        self._sensitivity: float | None = None
        self._cost_s = 0.0
        self._left = list(AT_S)
        self._ticks: dict[int, tuple[float, float]] = {}
        self.idle()

    def before(self) -> None:
        """The node without the job: its processes have not begun."""
        allowed = os.sched_getaffinity(0)
        free = {cpu for cpu, share in self.idle().items() if share >= IDLE} & allowed
        if free and self.mode != OFF:
            self._quiet = self._copied(free)

    def step(
        self,
        elapsed_s: float,
        mine: str | None,
        others: Sequence[str | None],
        rate: Callable[[], tuple[float, float] | None],
    ) -> None:
        """Probe where it is time; `mine` and `others` are lists of CPUs, None where not known.

        `rate` tells the job's instructions and seconds on a processor so far.
        """
        if self.mode == OFF or not self._left or elapsed_s < self._left[0]:
            return
        self._left.pop(0)
        cpus = free_cpus(self.idle(), mine, others)
        if not cpus:
            self.why = "no idle processor that no job may use"
            return
        self._during.append(self._copied(cpus))
        if self.mode == ACTIVE and not self._left:
            self._stress(cpus, others, rate)

    def totals(self) -> dict[str, tuple[str, float]]:
        """Counters of columns.CONTENTION_UNITS; only what was measured."""
        found: dict[str, float] = {}
        if self._during:
            copied = sorted(self._during)[len(self._during) // 2]
            found["contention_copy"] = copied
            if self._quiet:
                found["contention_pressure"] = max(0.0, 1.0 - copied / self._quiet)
        if self._sensitivity is not None:
            found["contention_sensitivity"] = self._sensitivity
        if found:
            found["contention_cost"] = self._cost_s
        return {name: (f"{_SOURCE}/{self.mode}", value) for name, value in found.items()}

    def idle(self) -> dict[int, float]:
        """Idle share of each processor since the last call; empty at the first."""
        now = _ticks(f"{self._proc}/stat")
        before, self._ticks = self._ticks, now
        shares = {}
        for cpu, (idle, total) in now.items():
            passed = total - before.get(cpu, (0.0, total))[1]
            if cpu in before and passed > 0:
                shares[cpu] = (idle - before[cpu][0]) / passed
        return shares

    def _copied(self, cpus: Collection[int]) -> float:
        """Bytes a second of our own CPU time: the wait for a processor is not the memory's."""
        allowed = os.sched_getaffinity(0)
        os.sched_setaffinity(0, cpus)
        try:
            return self._copy()
        finally:
            os.sched_setaffinity(0, allowed)

    def _copy(self) -> float:
        first, second = bytearray(COPY_BYTES), bytearray(COPY_BYTES)
        rates = []
        for _ in range(COPIES):
            start = time.thread_time()
            second[:] = first
            took_s = max(1e-6, time.thread_time() - start)
            self._cost_s += took_s
            rates.append(COPY_BYTES / took_s)
        return sorted(rates)[COPIES // 2]

    def _stress(
        self,
        cpus: Collection[int],
        others: Sequence[str | None],
        rate: Callable[[], tuple[float, float] | None],
    ) -> None:
        if others:
            self.why = "other jobs are on the node: nothing was stressed"
            return
        chosen = sorted(cpus)[:MOST_STRESSED]
        ratios = []
        for _ in range(TURNS):
            quiet = _rate_over(rate)
            loud = self._loud(chosen, rate)
            if quiet and loud:
                ratios.append(loud / quiet)
        if ratios:
            self._sensitivity = sorted(ratios)[len(ratios) // 2]
        else:
            self.why = "no hardware counters to see the job's speed by"

    def _loud(
        self, cpus: Iterable[int], rate: Callable[[], tuple[float, float] | None]
    ) -> float | None:
        pids = [_stressor(cpu) for cpu in cpus]
        try:
            return _rate_over(rate)
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                self._cost_s += TURN_S


def free_cpus(
    idle: Mapping[int, float], mine: str | None, others: Sequence[str | None]
) -> set[int]:
    """Idle processors that no job may use; none where one job's are not known. Pure."""
    places = [mine, *others]
    if any(place is None for place in places):
        return set()
    taken: set[int] = set().union(*(cpu_numbers(place or "") for place in places))
    return {cpu for cpu, share in idle.items() if share >= IDLE and cpu not in taken}


def _rate_over(rate: Callable[[], tuple[float, float] | None]) -> float | None:
    """Instructions a second on a processor over one turn; None where the job did not run."""
    before = rate()
    time.sleep(TURN_S)
    after = rate()
    if before is None or after is None or after[1] <= before[1]:
        return None
    return (after[0] - before[0]) / (after[1] - before[1]) or None


def _stressor(cpu: int) -> int:
    """A child that copies memory on one processor; it ends by itself if nobody ends it."""
    pid = os.fork()
    if pid == 0:
        _copy_for(cpu, 2 * TURN_S)
    return pid


def _copy_for(cpu: int, seconds: float) -> NoReturn:
    try:
        os.sched_setaffinity(0, {cpu})
        os.nice(19)
        first, second = bytearray(COPY_BYTES), bytearray(COPY_BYTES)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            second[:] = first
    finally:
        os._exit(0)


def _ticks(path: str) -> dict[int, tuple[float, float]]:
    """Idle and all ticks of each processor, waiting for I/O counted as idle."""
    found = {}
    try:
        with open(path, encoding="ascii") as file:
            for line in file:
                name, *fields = line.split()
                if name.startswith("cpu") and name[3:].isdigit():
                    ticks = [float(field) for field in fields[:8]]
                    found[int(name[3:])] = (ticks[3] + ticks[4], sum(ticks))
    except (OSError, ValueError, IndexError):
        return {}
    return found
