"""When runs show a ceiling of storage: every condition has an exact limit."""

from dataclasses import replace
from math import inf

import pytest

from slurm_ext.core.records import LoaderRun
from slurm_ext.model.throughput.storage import NO_MORE_SAMPLES, ceiling, knee

FEW = LoaderRun(
    samples_per_s=100.0,
    workers=4,
    cores=8.0,
    batch_size=32,
    accel_samples_per_s=1000.0,
    fetch_wall_s=0.04,
    fetch_cpu_s=0.001,
    fetch_queued_s=0.0,
    main_cpu_s=0.001,
)
MOST = NO_MORE_SAMPLES * FEW.samples_per_s  # 115
MANY = replace(FEW, workers=6, samples_per_s=MOST)


def test_more_workers_without_more_samples_are_a_ceiling() -> None:
    """Half as many workers more, and 15 % more samples: the larger rate is the ceiling."""
    assert ceiling([FEW, MANY]) == ceiling([MANY, FEW]) == MOST
    assert ceiling([FEW, replace(MANY, samples_per_s=90.0)]) == 100.0
    assert ceiling([FEW, MANY, replace(MANY, samples_per_s=80.0)]) == MOST


@pytest.mark.parametrize(
    "many",
    [
        replace(MANY, samples_per_s=115.1),  # faster by more than 15 %
        replace(MANY, workers=5),  # not half as many more
        replace(MANY, samples_per_s=64.0, fetch_cpu_s=0.09375, main_cpu_s=None),  # exactly 0.75
        replace(MANY, fetch_cpu_s=0.0512),  # cores busy: 115 * (0.0512 + 0.001) / 8 = 0.7504
        replace(MANY, fetch_queued_s=0.01),  # a quarter of a fetch waits for a core
        replace(MANY, accel_samples_per_s=127.7),  # the accelerator is the limit
    ],
    ids=["faster", "few", "three quarters", "busy", "crowded", "accelerator"],
)
def test_anything_else_is_no_ceiling(many: LoaderRun) -> None:
    """Just beyond a limit there is no ceiling, or the run is held by something else."""
    assert ceiling([FEW, many]) is None


def test_just_within_the_limits_there_is_one() -> None:
    """A little less of each: still held by reading."""
    near = replace(MANY, fetch_queued_s=0.0099, accel_samples_per_s=127.9, fetch_cpu_s=0.0511)
    assert ceiling([FEW, near]) == MOST
    silent = replace(MANY, fetch_queued_s=None, main_cpu_s=None)
    assert ceiling([FEW, silent]) == MOST


def test_one_run_or_no_worker_shows_nothing() -> None:
    """A ceiling needs two runs with workers."""
    assert ceiling([]) is ceiling([MANY]) is None
    assert ceiling([replace(FEW, workers=0), replace(MANY, workers=0)]) is None


def test_the_knee_is_where_the_ceiling_is_reached() -> None:
    """Rate times seconds of one fetch without its wait for a core, at least the fewest measured."""
    assert knee(None, [FEW, MANY]) == inf
    assert knee(250.0, [MANY, FEW]) == pytest.approx(250 * 0.04)
    assert knee(250.0, [replace(FEW, fetch_queued_s=0.01)]) == pytest.approx(250 * 0.03)
    assert knee(50.0, [MANY, FEW]) == 4.0
    assert knee(250.0, [replace(FEW, workers=0, fetch_wall_s=9.0), FEW]) == pytest.approx(10.0)
