"""CPU time of a job's threads, and their wait for cores, between two looks at /proc.

Linux, Documentation/scheduler/sched-stats: on a CPU (ns), waiting for one (ns), time slices.
"""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from slurm_ext.node.kernel.processes import PROC

MAX_THREADS = 8192  # of a job; those beyond are not counted


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuUse:
    """Seconds in a second, of all threads together."""

    used_cores: float
    queued_cores: float  # ready to run, and waiting for a core


class CpuUseMeter:
    """Uses of one set of processes from look to look."""

    def __init__(self, proc: str = PROC) -> None:
        self._proc = proc
        self._before: dict[int, tuple[int, int]] = {}
        self._at_s: float | None = None

    def look(self, pids: Iterable[int], now_s: float) -> CpuUse | None:
        """Return the use since the last look; None: this is the first."""
        now = dict(islice(self._threads(pids), MAX_THREADS))
        before, since_s = self._before, self._at_s
        self._before, self._at_s = now, now_s
        if since_s is None or now_s <= since_s:
            return None
        parts = [_since(before.get(thread), total) for thread, total in now.items()]
        seconds = (now_s - since_s) * 1e9
        return CpuUse(
            used_cores=sum(used for used, _ in parts) / seconds,
            queued_cores=sum(queued for _, queued in parts) / seconds,
        )

    def _threads(self, pids: Iterable[int]) -> "Iterable[tuple[int, tuple[int, int]]]":
        for pid in sorted(pids):
            with suppress(OSError):
                for task in Path(self._proc, str(pid), "task").iterdir():
                    with suppress(OSError, ValueError):
                        used, queued, _ = (task / "schedstat").read_text().split()
                        yield int(task.name), (int(used), int(queued))


def _since(before: tuple[int, int] | None, now: tuple[int, int]) -> tuple[int, int]:
    """Difference of a thread's totals; a number that another thread bore begins at 0."""
    if before is None or now[0] < before[0] or now[1] < before[1]:
        return now
    return now[0] - before[0], now[1] - before[1]
