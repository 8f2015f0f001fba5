"""Maximum and knee: what a job can reach within its limits, and the least that comes near it."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_ext.core.records import Interval, Level, Prediction, Shape, ShapeLimits
from slurm_ext.model.throughput.shape_predictor import ShapePredictor
from slurm_ext.policy.loader import core_counts, most_workers, worker_counts
from slurm_ext.policy.max_and_knee import NEAR, peak
from tests.builders import STARVED, estimate_of


def of(**changes: float | None) -> Callable[[Shape], Prediction]:
    """Predictions from one run on a node whose cores are not known."""
    return ShapePredictor(estimate_of(STARVED, node_cores=None, **changes))


def test_the_maximum_is_the_accelerators_where_cores_suffice() -> None:
    """With enough cores the step is what is left, and the knee needs fewer of them."""
    found = peak(of(), ShapeLimits(max_cpus_per_task=32, node_cores=32))
    assert found.maximum.samples_per_s == pytest.approx(390, rel=0.03)
    assert found.maximum.interval.low < found.maximum.samples_per_s < found.maximum.interval.high
    assert found.knee.samples_per_s >= NEAR * found.maximum.samples_per_s
    assert 6 <= found.knee.shape.cpus_per_task < found.maximum.shape.cpus_per_task <= 16


def test_limits_hold_the_maximum_down() -> None:
    """Few cores or little memory: the most that is possible within them."""
    two = peak(of(), ShapeLimits(max_cpus_per_task=2, node_cores=32))
    assert two.maximum.shape.cpus_per_task == 2
    assert two.maximum.samples_per_s < 2 / 0.018
    small = ShapeLimits(max_cpus_per_task=32, node_cores=32, mem_bytes=800 << 20)
    assert peak(of(), small, worker_rss_bytes=200 << 20).maximum.shape.num_workers <= 4


def test_a_job_that_needs_nothing_gets_the_smallest_shape() -> None:
    """Where the first shape is as good as any, maximum and knee are that one."""
    found = peak(
        of(fetch_wall_s=1e-6, fetch_cpu_s=1e-6, main_cpu_s=0.0, samples_per_s=399.0),
        ShapeLimits(max_cpus_per_task=64, node_cores=64),
    )
    assert found.knee.shape == Shape(cpus_per_task=1, num_workers=0)


def test_limits_that_allow_no_core_are_looked_at_with_one() -> None:
    """Nothing runs on none: the table still has a row."""
    found = peak(of(), ShapeLimits(max_cpus_per_task=0, node_cores=0, max_workers=4))
    assert found.maximum.shape.cpus_per_task == found.knee.shape.cpus_per_task == 1


@given(
    st.floats(1e-4, 0.2),
    st.floats(0.05, 1.0),
    st.floats(1e-4, 0.1),
    st.integers(1, 24),
    st.integers(1, 16),
)
def test_no_shape_within_the_limits_beats_the_maximum(
    wall: float, share: float, step: float, cores: int, workers: int
) -> None:
    """The climb misses nothing that trying every shape would find (but for a hundredth)."""
    predict = of(
        fetch_wall_s=wall,
        fetch_cpu_s=wall * share,
        accel_samples_per_s=1 / step,
        samples_per_s=0.9 / (step + wall),
    )
    limits = ShapeLimits(max_cpus_per_task=cores, node_cores=cores, max_workers=workers)
    found = peak(predict, limits)
    every = [
        predict(Shape(cpus_per_task=c, num_workers=w)).samples_per_s
        for c in core_counts(1, limits, "any")
        for w in worker_counts(most_workers(limits, None))
    ]
    assert found.maximum.samples_per_s >= 0.99 * max(every)
    assert found.knee.samples_per_s >= NEAR * found.maximum.samples_per_s
    assert found.knee.shape.cpus_per_task <= found.maximum.shape.cpus_per_task


def test_two_ridges_are_both_looked_at() -> None:
    """A curve that rises again after a dip is followed over it."""
    rates = [10.0, 20.0, 19.0, 19.5, 40.0, 41.0]

    def told(shape: Shape) -> Prediction:
        rate = rates[min(shape.num_workers, 5)] * (1 if shape.cpus_per_task > 1 else 0.5)
        return Prediction(
            shape=shape,
            samples_per_s=rate,
            interval=Interval(rate, rate),
            bottleneck="data",
            level=Level.SCRIPT,
            runs=1,
        )

    found = peak(told, ShapeLimits(max_cpus_per_task=2, node_cores=2, max_workers=5))
    assert found.maximum.samples_per_s == 41.0
