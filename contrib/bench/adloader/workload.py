"""Arrivals of jobs, the same for every policy of one seed. Pure."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

JITTER = 0.15  # of the jobs' sizes, either way
EPOCHS = 2

# Samples/s of each kind on one core with the script's own workers: sizes only follow from these.
USUAL_RATE = {"jpeg": 190.0, "records": 120.0, "compute": 110.0, "thumbs": 29.0}
SECONDS = 60.0  # about, of a job of the mix under Slurm as it is
SAME_SECONDS = 45.0  # of the equal ones
QUICK_SECONDS = 5.0
MIX = ("jpeg", "compute", "records", "jpeg", "thumbs")
ARRIVALS_S = (0.0, 0.0, 10.0, 20.0, 40.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One submission of a mix; `samples` of one of its EPOCHS."""

    number: int
    kind: str
    samples: int
    submit_s: float


Mix = Callable[[int, int], list[Job]]
"""From a seed, and the number of jobs that run at a time, to the jobs."""


def slots(cores: int) -> int:
    """Jobs that run at a time: those of two GPUs, or of four where there are cores for four."""
    return 2 if cores < 4 else 4


def mixed(seed: int, width: int) -> list[Job]:
    """Half as many times two that decode, one each that reads, computes, idles; seed's order."""
    draw, times = random.Random(seed), width // 2
    kinds = list(MIX * times)
    draw.shuffle(kinds)
    sizes = [SECONDS * draw.uniform(1 - JITTER, 1 + JITTER) for _ in kinds]
    return _jobs(kinds, sizes, sorted(ARRIVALS_S * times))


def homogeneous(seed: int, width: int) -> list[Job]:
    """Equal jobs at once: nothing can be gained, and nothing may be lost."""
    del seed
    return _jobs(["jpeg"] * width, [SAME_SECONDS] * width, [0.0] * width)


def quick(seed: int, width: int) -> list[Job]:
    """Two short jobs, for a look at the whole way."""
    del width
    kinds = ["jpeg", "compute"]
    random.Random(seed).shuffle(kinds)
    return _jobs(kinds, [QUICK_SECONDS] * 2, [0.0, 0.0])


def _jobs(kinds: list[str], seconds: Sequence[float], arrivals_s: Sequence[float]) -> list[Job]:
    rows = zip(kinds, seconds, arrivals_s, strict=True)
    return [
        Job(
            number=number,
            kind=kind,
            samples=round(USUAL_RATE[kind] * run_s / EPOCHS),
            submit_s=arrival_s,
        )
        for number, (kind, run_s, arrival_s) in enumerate(rows)
    ]


def usual_s(jobs: Sequence[Job], width: int) -> float:
    """Seconds that the jobs take about, `width` at a time: in the order of submission."""
    ends = [0.0] * width
    for job in jobs:
        first = min(range(width), key=ends.__getitem__)
        run_s = job.samples * EPOCHS / USUAL_RATE[job.kind]
        ends[first] = max(ends[first], job.submit_s) + run_s
    return max(ends)


MIXES: Mapping[str, Mix] = {"mixed": mixed, "homogeneous": homogeneous, "quick": quick}
