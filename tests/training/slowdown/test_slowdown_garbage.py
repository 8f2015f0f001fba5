"""Whatever stands in a history, what is learnt of sharing is a bound below a mean."""

from itertools import product
from math import inf, isfinite, nan
from pathlib import Path

import numpy as np

from slurm_ext.core.gpu_sharing import CorunMeasurement, SoloProfile
from slurm_ext.model.slowdown.artifact import FILE, load, serialize
from slurm_ext.training.slowdown.fit import fitted

JOBS = [f"j{number}" for number in range(9)]


def garbage(rng: np.random.Generator) -> CorunMeasurement:
    """A run whose figures may be broken, with any number of partners, itself included."""
    speeds = (rng.uniform(-1, 2), 0.001, 10.0, nan, inf, 1.0, rng.uniform(0.3, 1.0))
    return CorunMeasurement(
        job=str(rng.choice(JOBS)),
        partners=tuple(str(name) for name in rng.choice(JOBS, int(rng.choice([0, 1, 1, 1, 2])))),
        speed=float(rng.choice(speeds)),
        seconds=float(rng.choice([0.001, 1.0, 600.0, -5.0, 1e9, nan])),
        device=str(rng.choice(["cpu", "NVIDIA T4"])),
    )


def solo(key: str, rng: np.random.Generator) -> SoloProfile:
    """A job whose counters may be absurd."""
    values = (0.0, 1e12, 1e300, -3.0, rng.uniform())
    features = {f"c{number}": float(rng.choice(values)) for number in range(int(rng.integers(6)))}
    return SoloProfile(key=key, features=features | {"cpu_user": float(rng.uniform())})


def test_no_history_makes_a_bound_that_is_none(tmp_path: Path) -> None:
    """Beside one or several, on devices seen and unseen, for jobs known and unknown."""
    rng = np.random.default_rng(7)
    known, kernels = fitted([garbage(rng) for _ in range(500)], {j: solo(j, rng) for j in JOBS})
    (tmp_path / FILE).write_bytes(serialize(known, kernels, {"window_s": (0, 1)})[FILE])
    told = load(tmp_path).slowdowns
    assert known.refused > 0
    for job, partner, device in product([*JOBS[:4], "new"], JOBS[4:], ("cpu", "NVIDIA T4", "?")):
        for beside in ([partner], [partner, job, "new"]):
            alone = told.solos.get(job, SoloProfile(key=job))
            speed = told.speed(
                alone, [told.solos.get(n, SoloProfile(key=n)) for n in beside], device
            )
            assert 0 < speed.low <= speed.mean <= speed.high
            assert isfinite(speed.high)
