"""One run inverted by hand: each cost with what is taken off it, and each uncertainty."""

from dataclasses import replace
from math import exp, hypot, log, sqrt

import pytest

from slurm_ext.core.records import LoaderRun
from slurm_ext.model.throughput.curve.costs import (
    FREE_S_PER_BYTE,
    RECEIVE_S,
    SEND_S,
    SEND_S_PER_BYTE,
    SHARPNESS,
    SLICE_S,
    START_S,
    START_S_PER_WORKER,
    Curve,
)
from slurm_ext.model.throughput.curve.waits import contention_s
from slurm_ext.model.throughput.inversion import (
    BUSY_FROM,
    BUSY_TO,
    EFFICIENCY_RANGE,
    LEAST_CPU_S,
    LEAST_LEFT,
    LONGEST,
    MEASURED_SD,
    MOST_FILLING,
    MOST_RECEIVE_S,
    QUEUED_DOUBT,
    SLACK,
    invert,
)

RUN = LoaderRun(
    samples_per_s=150.0,
    workers=4,
    cores=8.0,
    batch_size=32,
    accel_samples_per_s=200.0,
    fetch_wall_s=0.02,
    fetch_cpu_s=0.01,
    main_cpu_s=0.0001,
    emulated=True,
    fetch_queued_s=0.002,
    step_queued_s=0.00001,
    main_queued_s=0.00002,
    sample_bytes=100_000,
)
SENT_S = SEND_S_PER_BYTE * 100_000
STEP_S = 1 / 200 - FREE_S_PER_BYTE * 100_000


def test_a_batch_next_to_nothing_is_inverted_all_the_same() -> None:
    """Its loop waits for batches alone: no power of that leaves the range of a float."""
    assert invert(replace(RUN, batch_size=1e-30, cores=2.0)).efficiency is None


def test_costs_are_freed_of_sending_and_waiting() -> None:
    """A fetch without its wait and its sending; the step without its wait and freeing."""
    run = invert(RUN)
    assert exp(run.cpu.log_mean) == pytest.approx(0.01 - SENT_S)
    assert exp(run.wall.log_mean) == pytest.approx(0.018 - SENT_S)
    assert exp(-run.accel.log_mean) == pytest.approx(STEP_S - 0.00001)
    crowded = hypot(MEASURED_SD, QUEUED_DOUBT * log(0.02 / 0.018))
    assert run.wall.log_sd == run.cpu.log_sd == pytest.approx(crowded)
    doubt = QUEUED_DOUBT * log(STEP_S / (STEP_S - 0.00001))
    assert run.accel.log_sd == pytest.approx(hypot(MEASURED_SD, doubt))
    assert run.main_cpu_s == 0.0001


def test_a_real_accelerator_may_have_gone_on() -> None:
    """Half of the wait in logs, with a uniform distribution's spread."""
    run = invert(replace(RUN, emulated=False, step_queued_s=0.001))
    alone_s = STEP_S - 0.001
    assert exp(-run.accel.log_mean) == pytest.approx(sqrt(alone_s * STEP_S))
    assert run.accel.log_sd == pytest.approx(hypot(MEASURED_SD, log(STEP_S / alone_s) / sqrt(12)))


def test_without_workers_nothing_is_sent_or_freed() -> None:
    """All costs as they were measured; what receiving takes is not known, nor efficiency."""
    run = invert(replace(RUN, workers=0, fetch_queued_s=None, samples_per_s=40.0))
    assert exp(run.cpu.log_mean) == pytest.approx(0.01)
    assert exp(run.wall.log_mean) == pytest.approx(0.02)
    assert run.wall.log_sd == MEASURED_SD
    assert exp(-run.accel.log_mean) == pytest.approx(1 / 200 - 0.00001)
    assert (run.receive_s, run.efficiency) == (None, None)
    busy = replace(RUN, workers=0, fetch_queued_s=None, samples_per_s=40.0, cores=0.4)
    assert exp(invert(busy).wall.log_mean) == pytest.approx(0.02)  # no worker queues for its core


def test_the_training_process_has_a_cost_of_its_own() -> None:
    """Measured, else the receiving of a batch, else a core that drives a real accelerator."""
    silent = replace(RUN, main_cpu_s=None)
    assert invert(silent).main_cpu_s == pytest.approx(RECEIVE_S / 32)
    assert invert(replace(silent, emulated=False)).main_cpu_s == pytest.approx(1 / 200)


def test_nothing_is_taken_off_to_nothing() -> None:
    """LEAST_LEFT of a time stays, however much it waited; a fetch takes some CPU."""
    run = invert(replace(RUN, fetch_queued_s=0.5, step_queued_s=0.5, fetch_cpu_s=0.0))
    assert exp(-run.accel.log_mean) == pytest.approx(LEAST_LEFT * STEP_S)
    assert exp(run.cpu.log_mean) == pytest.approx(LEAST_CPU_S)
    assert exp(run.wall.log_mean) == pytest.approx(LEAST_LEFT * 0.02 - SENT_S)
    assert run.wall.log_sd == pytest.approx(hypot(MEASURED_SD, QUEUED_DOUBT * log(1 / LEAST_LEFT)))
    assert exp(invert(replace(RUN, fetch_cpu_s=9.0)).cpu.log_mean) == pytest.approx(0.02 - SENT_S)


def test_a_wait_that_was_not_measured_is_guessed_from_busy_cores() -> None:
    """None below BUSY_FROM; all of it above BUSY_TO; in proportion between."""
    for cores, sharing in ((8.0, 0.0), (1.7, None), (1.0, 1.0)):
        run = replace(RUN, fetch_queued_s=None, cores=cores)
        busy = 150 * (0.01 + 0.0001) / cores
        share = (busy - BUSY_FROM) / (BUSY_TO - BUSY_FROM) if sharing is None else sharing
        assert 0 <= share <= 1
        least = 0.5  # CPU share of the measured wall
        middle = (1 + least) / 2
        alone_s = exp(log(0.02) - share * log(middle / least)) - SENT_S
        doubt = (1 - least) / sqrt(12) / middle
        wall = invert(run).wall
        assert exp(wall.log_mean) == pytest.approx(alone_s)
        assert wall.log_sd == pytest.approx(hypot(MEASURED_SD, share * doubt))


def test_receiving_takes_the_wait_of_a_loop_with_idle_workers() -> None:
    """Less the wait for cores; at most MOST_RECEIVE_S, and unknown where workers were busy."""
    idle = replace(RUN, workers=6, samples_per_s=199.0)
    waited_s = (1 / 199 - 1 / 200) * 32
    assert invert(idle).receive_s == pytest.approx(waited_s - 0.00001 * 32)
    assert invert(RUN).receive_s == MOST_RECEIVE_S
    busy = replace(RUN, samples_per_s=4 * SLACK / 0.02, accel_samples_per_s=400.0)
    assert invert(busy).receive_s is None
    assert invert(replace(busy, samples_per_s=4 * SLACK / 0.0201)).receive_s == MOST_RECEIVE_S
    among = replace(RUN, main_queued_s=LONGEST * 0.2 * SLICE_S / 32 * 1.01)
    assert invert(among).receive_s is None
    faster = replace(idle, samples_per_s=201.0)
    assert invert(faster).receive_s == 0.0


def test_efficiency_is_the_supply_over_the_ideal_one() -> None:
    """Where data was the limit for at least half; within its range; surer the more it was."""
    run = replace(RUN, samples_per_s=120.0, workers=3)
    inverted = invert(run)
    assert inverted.receive_s is not None
    loop_s = 1 / 200 + inverted.receive_s / 32
    accelerator = (120 * loop_s) ** SHARPNESS
    supply = 120 * (1 - accelerator) ** (-1 / SHARPNESS)
    ideal = 3 / (0.02 + 0.02 / 0.018 * SEND_S / 32)
    assert inverted.efficiency is not None
    assert inverted.efficiency.log_mean == pytest.approx(log(supply / ideal))
    assert inverted.efficiency.log_sd == pytest.approx(MEASURED_SD / (1 - accelerator))
    assert invert(replace(run, samples_per_s=199.0)).efficiency is None
    for workers, limit in ((1, EFFICIENCY_RANGE[1]), (40, EFFICIENCY_RANGE[0])):
        clipped = invert(replace(run, workers=workers)).efficiency
        assert clipped is not None
        assert exp(clipped.log_mean) == pytest.approx(limit)


def test_the_start_of_an_epoch_is_taken_off_the_rate() -> None:
    """A short epoch was faster once its queues were filled; at most half of it is taken off."""
    whole = invert(replace(RUN, workers=0, epoch_samples=320.0))
    assert whole == invert(replace(RUN, workers=0))
    short = replace(RUN, workers=6, samples_per_s=150.0, epoch_samples=32_000.0)
    accelerator = (150 / 200) ** SHARPNESS
    first_s, last_s = 32 * (0.02 + SEND_S / 32), 6 * 32 / 200
    ends_s = accelerator * first_s + (1 - accelerator) * min(first_s, last_s)
    share = (START_S + 6 * START_S_PER_WORKER + ends_s) * 150 / 32_000
    rate = 150 / (1 - share)
    assert invert(short).receive_s == invert(replace(RUN, workers=6, samples_per_s=rate)).receive_s
    same = invert(replace(RUN, workers=6, samples_per_s=rate)).efficiency
    found = invert(short).efficiency
    assert found is not None
    assert same is not None
    assert found.log_mean == pytest.approx(same.log_mean)
    tiny = invert(replace(short, epoch_samples=1.0)).efficiency
    half = invert(replace(RUN, workers=6, samples_per_s=150 / (1 - MOST_FILLING))).efficiency
    assert tiny == half


def test_a_slice_is_what_a_busy_core_was_waited_for() -> None:
    """The measured wait over the expected one; unknown where little is expected."""
    busy = replace(RUN, workers=3, cores=1.0, samples_per_s=60.0, fetch_wall_s=0.011)
    busy = replace(busy, fetch_queued_s=0.0, main_queued_s=0.00004)
    ideal = Curve(
        accel_samples_per_s=exp(invert(busy).accel.log_mean),
        fetch_wall_s=0.011 - SENT_S,
        fetch_cpu_s=0.01 - SENT_S,
        main_cpu_s=0.0001,
        receive_s=RECEIVE_S,
        batch_size=32,
        sample_bytes=100_000,
    )
    expected_s = contention_s(ideal, 60.0, 3, 1.0)
    assert expected_s > 0.2 * SLICE_S
    assert invert(busy).slice_s == pytest.approx(SLICE_S * 0.00004 * 32 / expected_s)
    assert invert(replace(busy, main_queued_s=1.49 * expected_s / 32)).slice_s == pytest.approx(
        1.49 * SLICE_S
    )
    assert invert(replace(busy, main_queued_s=1.6 * expected_s / 32)).slice_s is None  # others
    silent = replace(busy, main_queued_s=None, accel_samples_per_s=60.1)
    wait_s = (1 / 60 - 1 / 60.1) * 32
    assert invert(silent).slice_s == pytest.approx(SLICE_S * wait_s / expected_s, rel=1e-3)
    assert invert(replace(silent, accel_samples_per_s=65.0)).slice_s is None  # waited for more
    assert invert(replace(silent, accel_samples_per_s=59.0)).slice_s == 0.0
    assert invert(replace(busy, cores=8.0)).slice_s is None
    assert invert(replace(busy, workers=1, samples_per_s=80.0)).slice_s is None  # workers busy
