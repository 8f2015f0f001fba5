"""The throughput curve: its shape, its ceilings, its inversion."""

from dataclasses import replace
from math import exp, inf, log

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_ext.core.records import LoaderRun
from slurm_ext.model.throughput.curve.costs import (
    FREE_S_PER_BYTE,
    RECEIVE_S,
    SEND_S,
    SEND_S_PER_BYTE,
    SLICE_S,
    Curve,
)
from slurm_ext.model.throughput.curve.points import at
from slurm_ext.model.throughput.curve.waits import contention_s
from slurm_ext.model.throughput.inversion import invert

COSTS = st.floats(1e-4, 1.0)
SHARES = st.floats(0.01, 1.0)
CURVES = st.builds(
    lambda step, wall, share, main, efficiency: Curve(
        accel_samples_per_s=1 / step,
        fetch_wall_s=wall,
        fetch_cpu_s=wall * share,
        main_cpu_s=wall * main,
        efficiency=efficiency,
    ),
    COSTS,
    COSTS,
    SHARES,
    st.floats(0, 0.5),
    st.floats(0.5, 1.0),
)
WORKERS = st.integers(1, 128)
CORES = st.integers(1, 128)


@given(CURVES, WORKERS, CORES)
def test_no_shape_beats_any_ceiling(curve: Curve, workers: int, cores: int) -> None:
    """Never faster than the accelerator, than the workers fetch, or than the cores compute."""
    rate = at(curve, workers, cores).samples_per_s
    assert 0 < rate <= curve.accel_samples_per_s * (1 + 1e-9)
    assert rate <= workers / curve.fetch_wall_s * (1 + 1e-9)
    assert rate <= cores / (curve.fetch_cpu_s + curve.main_cpu_s) * (1 + 1e-9)


@given(CURVES, WORKERS, CORES)
def test_more_workers_or_cores_never_slow_a_loader_down(
    curve: Curve, workers: int, cores: int
) -> None:
    """The curve rises with workers and with cores."""
    here = at(curve, workers, cores).samples_per_s * (1 - 1e-9)
    assert at(curve, workers + 1, cores).samples_per_s >= here
    assert at(curve, workers, cores + 1).samples_per_s >= here


@given(CURVES, st.integers(0, 128), CORES)
def test_the_shares_of_the_ceilings_add_up(curve: Curve, workers: int, cores: int) -> None:
    """Halving every ceiling halves the rate, so their shares sum to one."""
    point = at(curve, workers, cores)
    assert point.accelerator + point.wall + point.cpu + point.storage == pytest.approx(1)


@given(CURVES, WORKERS, CORES)
def test_a_share_is_what_a_faster_ceiling_would_bring(
    curve: Curve, workers: int, cores: int
) -> None:
    """A share is d log X / d log ceiling: checked for the accelerator by a small step."""
    step = 1e-5
    faster = Curve(
        accel_samples_per_s=curve.accel_samples_per_s * exp(step),
        fetch_wall_s=curve.fetch_wall_s,
        fetch_cpu_s=curve.fetch_cpu_s,
        main_cpu_s=curve.main_cpu_s,
        efficiency=curve.efficiency,
    )
    here, there = at(curve, workers, cores), at(faster, workers, cores)
    slope = log(there.samples_per_s / here.samples_per_s) / step
    assert slope == pytest.approx(here.accelerator, abs=1e-3)


def test_without_workers_loading_and_training_take_turns() -> None:
    """X(0) = 1 / (1/G + f), whatever the cores."""
    curve = Curve(accel_samples_per_s=100, fetch_wall_s=0.03, fetch_cpu_s=0.03)
    assert at(curve, 0, 1).samples_per_s == at(curve, 0, 8).samples_per_s == pytest.approx(25)
    assert at(curve, 0, 0.25).samples_per_s == pytest.approx(0.25 / 0.03, rel=0.01)


@pytest.mark.parametrize(
    ("curve", "binds"),
    [
        (Curve(accel_samples_per_s=10, fetch_wall_s=0.01, fetch_cpu_s=0.01), "accelerator"),
        (Curve(accel_samples_per_s=1000, fetch_wall_s=0.1, fetch_cpu_s=0.01), "data"),
        (
            Curve(
                accel_samples_per_s=1000,
                fetch_wall_s=0.01,
                fetch_cpu_s=0.001,
                storage_samples_per_s=50,
            ),
            "storage",
        ),
    ],
)
def test_the_bottleneck_is_named_after_what_binds(curve: Curve, binds: str) -> None:
    """People are told what to improve."""
    assert at(curve, 4, 4).limit == binds


@given(CURVES, st.floats(1e-9, 1e9), WORKERS, CORES)
def test_the_unit_of_a_sample_does_not_matter(
    curve: Curve, unit: float, workers: int, cores: int
) -> None:
    """Tokens or images: rates scale, nothing overflows."""
    scaled = Curve(
        accel_samples_per_s=curve.accel_samples_per_s / unit,
        fetch_wall_s=curve.fetch_wall_s * unit,
        fetch_cpu_s=curve.fetch_cpu_s * unit,
        main_cpu_s=curve.main_cpu_s * unit,
        efficiency=curve.efficiency,
    )
    expected = at(curve, workers, cores).samples_per_s / unit
    assert at(scaled, workers, cores).samples_per_s == pytest.approx(expected)
    assert at(scaled, workers, cores).samples_per_s < inf


BATCH = 32
TRAINING = Curve(
    accel_samples_per_s=300,
    fetch_wall_s=0.02,
    fetch_cpu_s=0.015,
    main_cpu_s=0.0002,
    receive_s=RECEIVE_S,
    batch_size=BATCH,
    sample_bytes=600_000,
)


def run_of(curve: Curve, workers: int, cores: float, *, queued: bool = False) -> LoaderRun:
    """What a probe would measure of a training that follows the curve exactly.

    `queued`: the kernel tells how long the workers and the training process waited for cores.
    """
    point = at(curve, workers, cores)
    sent_s = SEND_S_PER_BYTE * curve.sample_bytes if workers else 0.0
    alone_s = curve.fetch_wall_s + sent_s
    stretched = workers / point.supply_samples_per_s - SEND_S / BATCH if workers else alone_s
    wall_s = max(alone_s, stretched if point.cpu > 0.5 else 0.0)
    step_s = 1 / curve.accel_samples_per_s + (
        FREE_S_PER_BYTE * curve.sample_bytes if workers else 0
    )
    held_s = contention_s(curve, point.samples_per_s, workers, cores) / BATCH if workers else 0.0
    return LoaderRun(
        samples_per_s=point.samples_per_s,
        workers=workers,
        cores=cores,
        batch_size=BATCH,
        accel_samples_per_s=1 / step_s,
        fetch_wall_s=wall_s,
        fetch_cpu_s=curve.fetch_cpu_s + sent_s,
        main_cpu_s=curve.main_cpu_s,
        emulated=True,
        sample_bytes=curve.sample_bytes,
        fetch_queued_s=wall_s - alone_s if queued else None,
        step_queued_s=0.0 if queued else None,
        main_queued_s=held_s if queued else None,
    )


@pytest.mark.parametrize("workers", [0, 1, 2, 4])
def test_one_run_tells_the_curve(workers: int) -> None:
    """With cores to spare, a run at any worker count gives back ceiling and costs."""
    learnt = invert(run_of(TRAINING, workers, 16))
    assert exp(learnt.accel.log_mean) == pytest.approx(300, rel=0.02)
    assert exp(learnt.wall.log_mean) == pytest.approx(0.02, rel=0.01)
    assert exp(learnt.cpu.log_mean) == pytest.approx(0.015, rel=0.01)


def test_workers_that_queued_for_cores_are_not_taken_at_their_word() -> None:
    """Eight workers on two cores take four times as long: the curve does not believe that."""
    curve = replace(TRAINING, accel_samples_per_s=5000, fetch_wall_s=0.01, fetch_cpu_s=0.01)
    run = run_of(curve, 8, 2)
    assert run.fetch_wall_s > 0.035
    learnt = invert(run)
    assert exp(learnt.wall.log_mean) < 0.02
    low = exp(learnt.wall.log_mean - 1.645 * learnt.wall.log_sd)
    assert low < 0.01 < exp(learnt.wall.log_mean)


def test_a_sleeping_worker_is_not_mistaken_for_a_queueing_one() -> None:
    """Reads from slow storage keep their wall time: no core was short."""
    curve = replace(TRAINING, accel_samples_per_s=5000, fetch_wall_s=0.1, fetch_cpu_s=0.001)
    learnt = invert(run_of(curve, 8, 2))
    assert exp(learnt.wall.log_mean) == pytest.approx(0.1, rel=0.01)
    assert learnt.wall.log_sd < 0.05


def test_an_accelerator_that_binds_hides_what_the_loader_can_do() -> None:
    """No efficiency is claimed from a loader that was never pressed."""
    idle = replace(TRAINING, accel_samples_per_s=50, fetch_wall_s=0.01, fetch_cpu_s=0.01)
    pressed = replace(idle, accel_samples_per_s=5000, efficiency=0.8)
    assert invert(run_of(idle, 4, 8)).efficiency is None
    shown = invert(run_of(pressed, 4, 8)).efficiency
    assert shown is not None
    assert exp(shown.log_mean) == pytest.approx(0.8, rel=0.02)


@pytest.mark.parametrize("cores", [0.5, 1, 2, 4])
@pytest.mark.parametrize("workers", [1, 4, 8])
def test_measured_waiting_for_cores_gives_back_what_a_worker_takes_alone(
    workers: int, cores: float
) -> None:
    """With the kernel's own word there is nothing to guess, however crowded the cores were."""
    learnt = invert(
        run_of(replace(TRAINING, accel_samples_per_s=5000), workers, cores, queued=True)
    )
    assert exp(learnt.wall.log_mean) == pytest.approx(0.02, rel=0.03)
    assert exp(learnt.cpu.log_mean) == pytest.approx(0.015, rel=0.01)


def test_a_single_core_is_contended_and_two_for_one_worker_are_not() -> None:
    """A woken worker pushes the training off its only core; with a core each nobody waits."""
    assert contention_s(TRAINING, 40, 1, 1) == pytest.approx(SLICE_S, rel=0.5)
    assert contention_s(TRAINING, 40, 1, 2) == 0
    assert contention_s(TRAINING, 130, 4, 2) > contention_s(TRAINING, 40, 4, 2)
    assert contention_s(TRAINING, 130, 8, 8) < 0.1 * contention_s(TRAINING, 130, 8, 2)


def test_sleeping_workers_leave_a_core_alone() -> None:
    """Reads that take no CPU hold nobody up, on whatever cores."""
    reading = replace(TRAINING, fetch_wall_s=0.1, fetch_cpu_s=0.0002)
    assert contention_s(reading, 30, 4, 1) < 0.1 * SLICE_S


def test_large_batches_cost_a_worker_more_than_the_training_process() -> None:
    """Writing a batch into shared memory is paid by workers only, and by the byte."""
    small = replace(TRAINING, accel_samples_per_s=5000, sample_bytes=1000)
    large = replace(small, sample_bytes=10_000_000)
    assert at(large, 0, 8).samples_per_s == at(small, 0, 8).samples_per_s
    assert at(large, 4, 8).samples_per_s < 0.9 * at(small, 4, 8).samples_per_s
