"""A second planner, slow and plain, that shares no code with the product's.

One node, whole seconds. In order while jobs fit; then each waiting job gets the first second at
which it fits beside those that run and meets no promise, which is of the whole node. It starts if
that is now.
"""

from collections.abc import Sequence

from tests.simulate.queue.slow_simulator import free
from tests.simulate.traces import Job


def starts(jobs: Sequence[Job], gpus: int, most: int | None) -> list[float]:
    """When each job starts; `jobs` by submission. `most`: promises at a time; None: any number."""
    started: dict[int, float] = {}
    now = 0
    while len(started) < len(jobs):
        waiting = [job for job in range(len(jobs)) if job not in started and jobs[job][0] <= now]
        while waiting and jobs[waiting[0]][2] <= free(jobs, started, gpus, now):
            started[waiting.pop(0)] = now
        promises: list[tuple[float, float]] = []
        for job in waiting:
            at = first_second(jobs, started, gpus, now, job, promises)
            if at == now:
                started[job] = now
            elif most is None or len(promises) < most:
                promises.append((at, at + jobs[job][1]))
        now += 1
    return [started[job] for job in range(len(jobs))]


def first_second(
    jobs: Sequence[Job],
    started: dict[int, float],
    gpus: int,
    now: int,
    job: int,
    promises: Sequence[tuple[float, float]],
) -> int:
    """The first second from now on at which a job may start."""
    runs_s, wanted = jobs[job][1], jobs[job][2]
    while wanted > free(jobs, started, gpus, now) or any(
        begin <= now + runs_s and end > now for begin, end in promises
    ):
        now += 1
    return now
