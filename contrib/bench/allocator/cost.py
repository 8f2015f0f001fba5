"""Time of one division, on curves with steps and without a floor that shortens them."""

import random
import time

from contrib.bench.allocator.tables import spread
from slurm_ext.policy.allocator.allocate import allocate
from slurm_ext.policy.allocator.job_demands import JobDemand
from slurm_ext.policy.allocator.operating_points import OperatingPoint

SIZES = ((8, 24), (8, 128), (64, 256))  # jobs, units


def costs(repeats: int) -> dict[str, dict[str, float]]:
    """Milliseconds by size of the node."""
    return {f"{jobs} jobs, {units} units": _cost(jobs, units, repeats) for jobs, units in SIZES}


def _cost(jobs: int, units: int, repeats: int) -> dict[str, float]:
    draw = random.Random(1)
    demands = [_tenant(f"{number}", units, units // jobs, draw) for number in range(jobs)]
    allocate(demands, units)  # the first one imports numpy
    times_ms = []
    for _ in range(repeats):
        began_s = time.perf_counter()
        allocate(demands, units)
        times_ms.append(1000 * (time.perf_counter() - began_s))
    return dict(spread(times_ms))


def _tenant(job: str, units: int, share: int, draw: random.Random) -> JobDemand:
    rate, points = 1.0, []
    for count in range(1, units + 1):
        rate += draw.random() ** 3
        points.append(OperatingPoint(units=count, workers=count, samples_per_s=rate))
    return JobDemand(job=job, points=tuple(points), share_units=share, now=None, agreed=True)
