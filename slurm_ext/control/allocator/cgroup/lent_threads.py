"""Threads of lent workers: which processes those are, and their priority and cores by the kernel.

Nothing here is taken from a file of the user's. A lent worker is a child of a training process, of
the job and of its user, that runs at idle priority; what it may use beyond the job is CPU time that
nobody else wants.
"""

import os
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

from slurm_ext.control.allocator.cgroup.job_location import JobLocation

MAX_THREADS = 4096  # of one process
_PARENT, _POLICY = 1, 38  # fields of /proc/<pid>/stat after the name, from the state on


def lent_workers(
    place: JobLocation, pids: Collection[int], trainings: Collection[int]
) -> tuple[int, ...]:
    """Of the job's processes `pids` those that its trainings started at idle priority."""
    parents = set(pids) & set(trainings)
    return tuple(sorted(pid for pid in pids if _is_lent(place, pid, parents)))


def threads(place: JobLocation, pid: int) -> Iterator[int]:
    """Threads of a process; none if it is gone."""
    with suppress(OSError):
        tasks = Path(place.proc, str(pid), "task").iterdir()
        yield from (int(task.name) for task in islice(tasks, MAX_THREADS))


def lower(place: JobLocation, pids: Iterable[int]) -> None:
    """Set every thread to idle priority, for the CPU and by that for block devices too."""
    _schedule(place, pids, os.SCHED_IDLE)


def raise_again(place: JobLocation, pids: Iterable[int]) -> None:
    """Set every thread to the usual priority: its last batches are waited for."""
    _schedule(place, pids, os.SCHED_OTHER)


def bind(place: JobLocation, pids: Iterable[int], cores: frozenset[int]) -> None:
    """Let every thread run on these cores; one that is gone meanwhile does not matter."""
    for pid in pids:
        for thread in threads(place, pid):
            with suppress(OSError):
                if os.sched_getaffinity(thread) != cores:
                    os.sched_setaffinity(thread, cores)


def confine(
    place: JobLocation, pids: Iterable[int], cores: frozenset[int], *, again: bool = False
) -> None:
    """Keep every thread within these cores; one that the user bound to some of them stays so.

    `again`: set the mask of those, too, that are within them.
    """
    for pid in pids:
        for thread in threads(place, pid):
            with suppress(OSError):
                mask = os.sched_getaffinity(thread)
                if again or not mask <= cores:
                    os.sched_setaffinity(thread, mask & cores or cores)


def bound_cores(pids: Iterable[int]) -> frozenset[int] | None:
    """The cores that processes are bound to; None if they may use all, or are gone."""
    cores: set[int] = set()
    for pid in pids:
        with suppress(OSError):
            cores |= os.sched_getaffinity(pid)
    return frozenset(cores) if 0 < len(cores) < (os.cpu_count() or 1) else None


def parent_of(place: JobLocation, pid: int) -> int | None:
    """The process that started it; None if it is gone."""
    fields = _stat(place, pid)
    return int(fields[_PARENT]) if fields else None


def _is_lent(place: JobLocation, pid: int, parents: Collection[int]) -> bool:
    fields = _stat(place, pid)
    if not fields or int(fields[_PARENT]) not in parents or int(fields[_POLICY]) != os.SCHED_IDLE:
        return False
    with suppress(OSError):
        return Path(place.proc, str(pid)).stat().st_uid == place.uid
    return False


def _stat(place: JobLocation, pid: int) -> list[str]:
    """Fields after the name, which may hold anything; empty if the process is gone or a zombie."""
    with suppress(OSError):
        text = Path(place.proc, str(pid), "stat").read_text(encoding="ascii", errors="replace")
        fields = text.rpartition(")")[2].split()
        if len(fields) > _POLICY and fields[0] not in "ZX":
            return fields
    return []


def _schedule(place: JobLocation, pids: Iterable[int], policy: int) -> None:
    for pid in pids:
        for thread in threads(place, pid):
            with suppress(OSError):
                if os.sched_getscheduler(thread) != policy:
                    os.sched_setscheduler(thread, policy, os.sched_param(0))
