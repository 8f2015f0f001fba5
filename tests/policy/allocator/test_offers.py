"""Offers: the best workers for every share, never more of them than memory holds."""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_ext.core.records import Interval, Level, LoaderRun, Prediction, Shape
from slurm_ext.model.throughput.estimate import estimate
from slurm_ext.model.throughput.shape_predictor import ShapePredictor
from slurm_ext.policy.allocator.operating_points import (
    fault,
    operating_points,
    within,
    workers_that_fit,
)

GIB = 2**30


def predict(cores: float, workers: int) -> Prediction:
    """Every worker decodes 10 samples/s on a core of its own; the accelerator takes 55."""
    rate = min(55.0, 10.0 * min(max(workers, 0.5), cores))
    return Prediction(
        shape=Shape(cpus_per_task=max(1, round(cores)), num_workers=workers),
        samples_per_s=rate,
        interval=Interval(rate, rate),
        bottleneck="data",
        level=Level.SCRIPT,
        runs=1,
    )


def test_each_share_gets_the_fewest_workers_that_serve_it() -> None:
    """As many workers as cores here, and no more than the accelerator takes."""
    told = operating_points(predict, 8, max_workers=16)
    assert [one.units for one in told] == list(range(1, 9))
    assert [one.workers for one in told] == [1, 2, 3, 4, 5, 6, 6, 6]
    assert [one.samples_per_s for one in told] == [10, 20, 30, 40, 50, 55, 55, 55]


def test_a_unit_may_be_a_part_of_a_core_and_samples_have_a_size() -> None:
    """Quarters of a core; what is read follows from the rate."""
    told = operating_points(predict, 8, grain_cores=0.25, max_workers=4, bytes_per_sample=100.0)
    assert [one.samples_per_s for one in told][3::4] == [10, 20]
    assert told[3].io_bytes_per_s == 1000


def test_the_models_own_curve_gives_sound_offers() -> None:
    """From one measured run: ascending, faster with more units, never above the accelerator."""
    run = LoaderRun(
        samples_per_s=80,
        workers=1,
        cores=2,
        batch_size=32,
        accel_samples_per_s=400,
        fetch_wall_s=0.0125,
        fetch_cpu_s=0.0120,
    )
    known = estimate({Level.SCRIPT_ARGS: [run]})
    assert known is not None
    told = operating_points(_by_cores(ShapePredictor(known, node_cores=8)), 8, max_workers=16)
    assert fault(told) is None
    rates = [one.samples_per_s for one in told]
    assert all(b >= a * 0.99 for a, b in pairwise(rates))
    assert 300 < rates[-1] < 400


def _by_cores(
    predicted: Callable[[Shape], Prediction],
) -> Callable[[float, int], Prediction]:
    return lambda cores, workers: predicted(Shape(cpus_per_task=round(cores), num_workers=workers))


def test_a_loader_that_has_workers_keeps_at_least_one() -> None:
    """And one whose workers must not change has offers with just these; too many fit nowhere."""
    quarter = operating_points(predict, 2, grain_cores=0.25, max_workers=8, least_workers=1)
    assert [one.workers for one in quarter] == [1, 1]
    assert [
        one.workers for one in operating_points(predict, 3, max_workers=5, least_workers=5)
    ] == [5] * 3
    assert operating_points(predict, 3, max_workers=4, least_workers=5) == ()


@given(
    worker=st.integers(1, 4 * GIB),
    limit=st.integers(0, 64 * GIB),
    base=st.integers(0, 64 * GIB),
    most=st.integers(0, 64),
    units=st.integers(1, 12),
)
def test_workers_never_push_a_job_over_its_memory(
    worker: int, limit: int, base: int, most: int, units: int
) -> None:
    """Whatever the sizes: in every offer, the process and its workers fit together."""
    told = operating_points(
        predict,
        units,
        max_workers=most,
        worker_rss_bytes=worker,
        mem_bytes=limit,
        base_bytes=base,
    )
    assert bool(told) == (base <= limit)
    for one in told:
        assert one.workers is not None
        assert one.workers <= most
        assert base + one.workers * worker <= limit


@pytest.mark.parametrize(
    ("rss", "limit", "fits"),
    [(None, 5, 8), (0, 5, 8), (-1, 5, 8), (2, None, 8), (2, 5, 2), (9, 5, 0), (2, 0, 0)],
)
def test_what_is_not_known_limits_nothing(rss: int | None, limit: int | None, fits: int) -> None:
    """Without a worker's size or the job's limit only `max_workers` holds."""
    assert workers_that_fit(8, rss, limit) == fits


def test_the_fastest_offer_within_a_share_is_the_smallest_of_equals() -> None:
    """A plateau's first unit, and nothing where the share is too small for any offer."""
    told = operating_points(predict, 8, max_workers=16)
    best = within(told, 8)
    assert best is not None
    assert best.units == 6
    assert within(told, 0) is None


def test_workers_that_an_offer_can_do_with_are_those_that_make_most_of_what_is_lent() -> None:
    """A core's worth is decoded by one worker or by six: six, where eight cores may come to it."""
    told = operating_points(predict, 8, max_workers=16, lent_units=8)
    assert [one.workers for one in told] == [6] * 8
    assert [one.samples_per_s for one in told] == [10, 20, 30, 40, 50, 55, 55, 55]


def test_what_is_lent_never_costs_an_offer_its_own_rate() -> None:
    """Workers that would do harm within its own units are not taken, whatever else they bring."""

    def crowded(cores: float, workers: int) -> Prediction:
        told = predict(cores, workers)
        harm = max(0.0, workers - 2 * cores)
        return replace(told, samples_per_s=told.samples_per_s * (1 - 0.01 * harm))

    plain = operating_points(crowded, 8, max_workers=16)
    lent = operating_points(crowded, 8, max_workers=16, lent_units=8)
    assert [one.workers for one in lent] == [2, 4, 6, 6, 6, 6, 6, 6]
    assert [one.samples_per_s for one in lent] == [one.samples_per_s for one in plain]
