"""Arrivals of jobs, the same for every policy of one seed. Pure."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from contrib.bench.adloader.training import KINDS

SLOTS = 4  # jobs that Slurm lets run at a time
ARRIVALS_S = (0.0, 0.0, 0.0, 3.0, 5.0, 6.0)
JITTER = 0.15  # of the jobs' sizes, either way

# Samples of one job: about 20 s of an even share among four for jobs that the CPUs or the reading
# hold back, and 6 s of the accelerator for the others.
SAMPLES = {"jpeg": 2000, "records": 2500, "thumbs": 600, "compute": 700}
HOMOGENEOUS = 1200


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One submission of a mix."""

    number: int
    kind: str
    samples: int
    submit_s: float

    @property
    def user_workers(self) -> int:
        """Loader workers that its script asks for."""
        return int(KINDS[self.kind].user_workers)


def mixed(seed: int) -> list[Job]:
    """Two jobs that decode, two that read, two light ones, in an order and sizes of the seed."""
    draw = random.Random(seed)
    kinds = ["jpeg", "jpeg", "records", "records", "thumbs", "compute"]
    draw.shuffle(kinds)
    sizes = [SAMPLES[kind] * draw.uniform(1 - JITTER, 1 + JITTER) for kind in kinds]
    return _jobs(kinds, sizes, ARRIVALS_S)


def homogeneous(seed: int) -> list[Job]:
    """Four equal jobs at once: nothing can be gained, and nothing may be lost."""
    del seed
    return _jobs(["jpeg"] * SLOTS, [HOMOGENEOUS] * SLOTS, (0.0,) * SLOTS)


def small(seed: int) -> list[Job]:
    """Three short jobs, for a quick look at the whole way."""
    kinds = ["jpeg", "records", "compute"]
    random.Random(seed).shuffle(kinds)
    return _jobs(kinds, [SAMPLES[kind] / 4 for kind in kinds], (0.0, 0.0, 1.0))


def _jobs(kinds: list[str], sizes: Sequence[float], arrivals_s: tuple[float, ...]) -> list[Job]:
    rows = zip(kinds, sizes, arrivals_s, strict=True)
    return [
        Job(number=number, kind=kind, samples=round(size), submit_s=arrival_s)
        for number, (kind, size, arrival_s) in enumerate(rows)
    ]


MIXES = {"mixed": mixed, "homogeneous": homogeneous, "small": small}
