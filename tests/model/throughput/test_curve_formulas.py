"""The throughput curve by its formulas, number by number."""

from dataclasses import replace
from math import inf

import pytest

from slurm_ext.model.throughput.curve import costs
from slurm_ext.model.throughput.curve.costs import Curve, sending_s
from slurm_ext.model.throughput.curve.point import STALLED, Point
from slurm_ext.model.throughput.curve.points import at
from slurm_ext.model.throughput.curve.waits import contention_s, pass_s

LOADED = Curve(
    accel_samples_per_s=200.0,
    fetch_wall_s=0.02,
    fetch_cpu_s=0.01,
    main_cpu_s=0.002,
    storage_samples_per_s=150.0,
    efficiency=0.9,
    receive_s=0.004,
    batch_size=10.0,
    sample_bytes=1e6,
    epoch_samples=1000.0,
)


def smooth_min(sharpness: float, *ceilings: float) -> float:
    """(a^-q + b^-q + ...)^(-1/q)."""
    return float(sum(ceiling**-sharpness for ceiling in ceilings) ** (-1 / sharpness))


def point(**shares: float) -> Point:
    """A point with these shares."""
    usual = {"accelerator": 0.0, "wall": 0.0, "cpu": 0.0, "storage": 0.0, **shares}
    return Point(samples_per_s=1.0, supply_samples_per_s=1.0, **usual)  # type: ignore[arg-type]  # floats


def test_the_constants_are_those_that_were_measured() -> None:
    """A figure of the benchmark rests on each."""
    assert (STALLED, costs.SHARPNESS, costs.SLEEPY_SHARPNESS) == (0.10, 12.0, 2.0)
    assert (costs.SEND_S, costs.SEND_S_PER_BYTE) == (0.0003, 0.6e-9)
    assert (costs.RECEIVE_S, costs.FREE_S_PER_BYTE) == (0.0010, 0.16e-9)
    assert (costs.START_S, costs.START_S_PER_WORKER, costs.SLICE_S) == (0.030, 0.005, 0.003)
    bare = Curve(accel_samples_per_s=1.0, fetch_wall_s=1.0, fetch_cpu_s=1.0)
    assert bare == Curve(
        accel_samples_per_s=1.0,
        fetch_wall_s=1.0,
        fetch_cpu_s=1.0,
        main_cpu_s=0.0,
        storage_samples_per_s=inf,
        efficiency=1.0,
        receive_s=0.0,
        slice_s=0.003,
        batch_size=0.0,
        sample_bytes=0.0,
        epoch_samples=inf,
    )


def test_sending_is_paid_for_a_batch_and_for_each_byte() -> None:
    """Nothing is counted where the batch is not known."""
    assert sending_s(10.0, 1e6) == pytest.approx(0.00003 + 0.0006)
    assert sending_s(0.0, 1e6) == 0.0
    assert LOADED.worker_s == pytest.approx((0.02063, 0.01063))


def test_workers_beyond_the_batches_of_an_epoch_bring_nothing() -> None:
    """They start, and there is nothing left to make: eight of eight batches, sixteen as well."""
    short = replace(LOADED, epoch_samples=80.0)
    eight, sixteen = (at(short, count, 16) for count in (8, 16))
    assert eight.supply_samples_per_s == sixteen.supply_samples_per_s
    assert eight.samples_per_s > sixteen.samples_per_s
    assert at(LOADED, 16, 16).supply_samples_per_s > eight.supply_samples_per_s


def test_a_point_without_contention_is_the_smooth_minimum_of_its_ceilings() -> None:
    """One worker on two cores; the shares are powers of rate / ceiling; an epoch adds its start."""
    found = at(LOADED, 1, 2)
    sleeping = 1 - 0.01063 / 0.02063
    sharpness = min(12.0, 2.0 / sleeping)
    by_wall, by_cpu = 1 / 0.02063, 2 / 0.01263
    loader = smooth_min(sharpness, by_wall, by_cpu)
    supply = 0.9 * loader
    step = 1 / 200 + 0.16e-9 * 1e6 + 0.004 / 10
    rate = smooth_min(12.0, 1 / step, supply, 150.0)
    accelerator, data, storage = ((rate / ceiling) ** 12 for ceiling in (1 / step, supply, 150.0))
    assert found.supply_samples_per_s == pytest.approx(supply)
    assert found.accelerator == pytest.approx(accelerator)
    assert found.storage == pytest.approx(storage)
    assert found.wall == pytest.approx(data * (loader / by_wall) ** sharpness)
    assert found.cpu == pytest.approx(data * (loader / by_cpu) ** sharpness)
    assert (found.contention, found.in_turns) == (0.0, False)
    first = 10 * 0.02063
    last = min(first, 1 * 10 / 200)
    ends = accelerator * first + (1 - accelerator) * last
    epoch = 1000 / rate + 0.03 + 0.005 + ends
    assert found.samples_per_s == pytest.approx(1000 / epoch)


def test_contention_lengthens_the_step() -> None:
    """By what a batch waits, as far as the accelerator binds; the rate is worked out again."""
    endless = replace(LOADED, epoch_samples=inf, storage_samples_per_s=inf)
    found = at(endless, 4, 2)
    step = 1 / 200 + 0.16e-9 * 1e6 + 0.004 / 10
    supply = found.supply_samples_per_s
    rate = smooth_min(12.0, 1 / step, supply)
    held = (rate * step) ** 12 * contention_s(endless, rate, 4, 2) / 10
    again = smooth_min(12.0, 1 / (step + held), supply)
    assert held > 0
    assert found.samples_per_s == pytest.approx(again)
    assert found.accelerator == pytest.approx((again * (step + held)) ** 12)
    assert found.contention == pytest.approx(found.accelerator * held / (step + held))


def test_the_sharpness_of_the_supply_is_by_how_much_workers_sleep() -> None:
    """From 2 of those that only sleep to 12 of those that only compute."""
    for cpu_s, sharpness in ((0.0, 2.0), (0.01, 4.0), (0.019, 12.0), (0.02, 12.0), (0.03, 12.0)):
        bare = Curve(accel_samples_per_s=1e9, fetch_wall_s=0.02, fetch_cpu_s=cpu_s)
        cores = 3 * cpu_s / 0.02
        supply = at(bare, 3, cores or 1).supply_samples_per_s
        ceilings = (150.0, 150.0) if cpu_s else (150.0,)
        assert supply == pytest.approx(smooth_min(sharpness, *ceilings))


@pytest.mark.parametrize(
    ("workers", "cores", "whole"), [(1, 1.5, 2), (2, 2.0, 2), (2, 1.5, 2), (1, 0.5, 1), (2, 3, 3)]
)
def test_contention_by_its_formula(workers: float, cores: float, whole: int) -> None:
    """None with fewer workers than whole cores; on a single core the others always are busy."""
    loaded = replace(LOADED, fetch_cpu_s=0.01, batch_size=0.2, slice_s=0.005)
    wall, cpu = loaded.worker_s
    busy = 60.0 * (cpu + 0.002) / whole
    assert busy < 1
    everything = busy ** (whole + 1)
    others = 1.0 if whole == 1 else everything
    burst = 0.2 * cpu / 0.003 * (cpu / wall) ** 2
    assert burst < 1
    expected = 0.005 * (1 - (1 - everything) * (1 - burst * others)) if workers >= whole else 0.0
    assert contention_s(loaded, 60.0, workers, cores) == pytest.approx(expected)


def test_contention_is_at_most_a_slice() -> None:
    """Cores that are busy all the time, and workers that never sleep."""
    assert contention_s(LOADED, 1e9, 4, 2) == 0.003
    computing = replace(LOADED, fetch_cpu_s=0.03, batch_size=1e3)
    assert contention_s(computing, 1e-9, 1, 1) == pytest.approx(0.003)


def test_a_pass_over_the_data_costs_its_workers_and_two_ends() -> None:
    """The first batch where the accelerator is all, the last batches where it is nothing."""
    assert pass_s(LOADED, 0, 2, 0.5) == 0.0
    assert pass_s(replace(LOADED, batch_size=0.0), 2, 2, 0.5) == 0.0
    wall, cpu = LOADED.worker_s
    for workers, cores, first in ((2, 2, 10 * wall), (4, 1, 10 * 4 * cpu)):
        start = 0.03 + 0.005 * workers
        last = workers * 10 / 200
        assert last < first
        assert pass_s(LOADED, workers, cores, 1.0) == pytest.approx(start + first)
        assert pass_s(LOADED, workers, cores, 0.0) == pytest.approx(start + last)
        assert pass_s(LOADED, workers, cores, 0.25) == pytest.approx(
            start + 0.25 * first + 0.75 * last
        )
    slow = replace(LOADED, accel_samples_per_s=1.0)
    assert pass_s(slow, 2, 2, 0.0) == pytest.approx(0.04 + 10 * wall)


def test_loading_in_turns_by_its_formula() -> None:
    """The slower of fetching and storage; a quota of less than a core bounds it as well."""
    found = at(LOADED, 0, 2)
    assert found.samples_per_s == pytest.approx(1 / (0.005 + 0.02))
    assert (found.accelerator, found.wall) == pytest.approx((0.2, 0.8))
    assert (found.cpu, found.storage, found.contention, found.in_turns) == (0, 0, 0, True)
    assert found.supply_samples_per_s == pytest.approx(50.0)
    assert found.stalled == pytest.approx(0.8)
    slow = at(replace(LOADED, storage_samples_per_s=25.0), 0, 2)
    assert slow.samples_per_s == pytest.approx(1 / 0.045)
    assert slow.supply_samples_per_s == pytest.approx(25.0)
    quota = at(replace(LOADED, fetch_cpu_s=0.02), 0, 0.8)  # 40 samples/s by either
    assert quota.samples_per_s == pytest.approx(40 * 2 ** (-1 / 12))
    assert (quota.accelerator, quota.wall, quota.cpu) == pytest.approx((0.1, 0.4, 0.5))
    assert at(replace(LOADED, fetch_cpu_s=0.02), 0, 1).cpu == 0
    assert at(replace(LOADED, fetch_cpu_s=0.0), 0, 0.5).cpu == 0
    assert at(LOADED, -1, 2) == found


def test_what_binds_is_the_accelerator_up_to_a_tenth_of_waiting() -> None:
    """Then whatever of storage and the loader has the larger share."""
    assert point(accelerator=0.9**12 * 1.001).limit == "accelerator"
    assert point(accelerator=0.9**12 * 0.999, storage=0.5, wall=0.3, cpu=0.2).limit == "data"
    assert point(storage=0.5, wall=0.2, cpu=0.2).limit == "storage"
    assert point(storage=0.5, wall=0.6).limit == "data"
    assert point(accelerator=0.5**12).stalled == pytest.approx(0.5)
    assert point(accelerator=0.85).limit == "accelerator"
    turns = replace(point(accelerator=0.85, wall=0.15), in_turns=True)
    assert turns.limit == "data"
    assert turns.stalled == pytest.approx(0.15)
