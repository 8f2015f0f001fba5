"""A second simulator, slow and plain, that shares no code with the product's: to compare starts.

Time moves second by second (all times are whole), one node only, EASY backfill by its definition:
a later job may start if the first job's start, found by playing on, is not put off by it.
"""

from collections.abc import Callable, Sequence

from tests.simulate.traces import Job

Key = Callable[[int], tuple[float, ...]]


def starts(jobs: Sequence[Job], gpus: int, key: Key, *, backfill: bool) -> list[float]:
    """When each job starts; `jobs` by submission."""
    started: dict[int, float] = {}
    now = 0
    while len(started) < len(jobs):
        waiting = sorted(
            (job for job in range(len(jobs)) if job not in started and jobs[job][0] <= now), key=key
        )
        while waiting and jobs[waiting[0]][2] <= free(jobs, started, gpus, now):
            started[waiting.pop(0)] = now
        if backfill and waiting:
            first = waiting[0]
            for job in waiting[1:]:
                if jobs[job][2] > free(jobs, started, gpus, now):
                    continue
                planned = could_start(jobs, started, gpus, now, first)
                if could_start(jobs, {**started, job: now}, gpus, now, first) <= planned:
                    started[job] = now
        now += 1
    return [started[job] for job in range(len(jobs))]


def free(jobs: Sequence[Job], started: dict[int, float], gpus: int, now: float) -> int:
    """GPUs that nobody holds."""
    held = (jobs[job][2] for job, at in started.items() if at <= now < at + jobs[job][1])
    return gpus - sum(held)


def could_start(
    jobs: Sequence[Job], started: dict[int, float], gpus: int, now: float, job: int
) -> float:
    """The first second from now on when a job fits, if nobody else starts."""
    while jobs[job][2] > free(jobs, started, gpus, now):
        now += 1
    return now
