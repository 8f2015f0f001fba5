"""A training on CPUs: its step costs cores, so that fewer cores are slower and more no promise."""

from dataclasses import replace
from math import exp

import pytest

from slurm_ext.core.records import Level, LoaderRun, Shape, ShapeLimits
from slurm_ext.core.stats import NORMAL_90
from slurm_ext.model.throughput.curve.costs import Curve
from slurm_ext.model.throughput.curve.points import at
from slurm_ext.model.throughput.curve.step import step_s
from slurm_ext.model.throughput.estimate import Estimate, estimate
from slurm_ext.model.throughput.estimate_codec import CELLS, MAX_CHARS, STEP_CELLS, read, write
from slurm_ext.model.throughput.inversion import invert
from slurm_ext.model.throughput.shape_predictor import ShapePredictor, predict
from slurm_ext.policy.loader import decide
from tests.builders import alone

W, U, F = 0.010, 0.0175, 0.001  # seconds of a sample: the step on two cores, its CPU, a fetch
CURVE = Curve(accel_samples_per_s=1 / W, fetch_wall_s=F, fetch_cpu_s=F, main_cpu_s=U, threads=2)
# Sixteen threads that are nearly always at work, and one worker that has little to do.
BUSY = LoaderRun(
    samples_per_s=390,
    workers=1,
    cores=16,
    batch_size=32,
    accel_samples_per_s=400,
    fetch_wall_s=0.0001,
    fetch_cpu_s=0.0001,
    main_cpu_s=15 / 400,
    node_cores=16,
    on_cpu=1,
    threads=16,
    fetch_queued_s=0.0,
    step_queued_s=0.0,
    main_queued_s=0.0,
)


def known(*runs: LoaderRun) -> Estimate:
    """The estimate from runs, which has to be there."""
    answer = estimate({Level.SCRIPT_ARGS: list(runs)})
    assert answer is not None
    return answer


def test_a_step_follows_amdahls_law_between_one_core_and_its_threads() -> None:
    """As seen with its threads' cores, its whole CPU time on one, and nothing gained beyond."""
    assert step_s(CURVE, 2) == pytest.approx(W)
    assert step_s(CURVE, 1) == pytest.approx(U)
    assert step_s(CURVE, 0.5) == pytest.approx(2 * U)
    assert step_s(CURVE, 64) == pytest.approx(W)


@pytest.mark.parametrize("cores", [0.5, 1, 1.5, 2, 3, 8])
@pytest.mark.parametrize("workers", [0, 1, 2, 8])
def test_cores_are_never_more_than_busy(workers: int, cores: float) -> None:
    """A sample costs its CPU seconds, whoever spends them."""
    rate = at(CURVE, workers, cores).samples_per_s
    assert rate * (U + F) <= cores * 1.0001
    assert rate <= 1 / W


# Milliseconds of a batch of 16 on two cores by 0 to 3 workers, of a step by two threads and a load.
BATCH = 16
ON_BOTH = [(0.0256, 0.0145, (40.1, 43.1, 42.4, 42.9)), (0.0124, 0.0325, (45.9, 47.5, 39.8, 40.0))]


@pytest.mark.parametrize(("step", "load", "measured"), ON_BOTH)
def test_workers_delay_all_threads_that_compute_together(
    step: float, load: float, measured: tuple[float, ...]
) -> None:
    """One worker brings nothing, and more where loading takes longer than the step."""
    two = Curve(
        accel_samples_per_s=BATCH / step,
        fetch_wall_s=load / BATCH,
        fetch_cpu_s=load / BATCH,
        main_cpu_s=2 * step / BATCH,
        receive_s=0.001,
        batch_size=BATCH,
        threads=2,
    )
    told = [1000 * BATCH / at(two, workers, 2).samples_per_s for workers in range(4)]
    assert told == pytest.approx(measured, rel=0.05)
    on_cores_of_their_own = BATCH / at(two, 2, 4).samples_per_s
    assert on_cores_of_their_own == pytest.approx(max(step + 0.001, load / 2), rel=0.10)


def test_a_run_with_workers_on_its_threads_cores_is_told_as_it_was() -> None:
    """What they delayed its step by is taken off, and comes back at its own shape."""
    run = LoaderRun(
        samples_per_s=BATCH / 0.0431,
        workers=1,
        cores=2,
        batch_size=BATCH,
        accel_samples_per_s=BATCH / 0.0421,
        fetch_wall_s=0.029 / BATCH,
        fetch_cpu_s=0.0145 / BATCH,
        main_cpu_s=0.053 / BATCH,
        node_cores=2,
        on_cpu=1,
        threads=2,
        main_queued_s=0.006 / BATCH,
        fetch_queued_s=0.0145 / BATCH,
        step_queued_s=0.006 / BATCH,
    )
    assert at_cores(run, 2) == pytest.approx(BATCH / 0.0431, rel=0.05)
    assert at_cores(run, 2, 0) == pytest.approx(BATCH / 0.0401, rel=0.06)


def test_one_thread_has_what_its_workers_leave() -> None:
    """A single core is work-conserving: a sample costs what both compute."""
    curve = replace(
        CURVE, accel_samples_per_s=1 / U, threads=1, fetch_wall_s=0.006, fetch_cpu_s=0.006
    )
    assert at(curve, 1, 1).samples_per_s == pytest.approx(1 / (U + 0.006))


def at_cores(run: LoaderRun, cores: int, workers: int = 1) -> float:
    """The rate that such a run predicts."""
    return predict(known(run), Shape(cpus_per_task=cores, num_workers=workers)).samples_per_s


def test_a_training_on_all_its_cores_is_slower_on_one() -> None:
    """Sixteen busy threads are worth fifteen cores; a timed wait would be as fast on one."""
    assert at_cores(BUSY, 16) == pytest.approx(390, rel=0.05)
    assert at_cores(BUSY, 1) == pytest.approx(390 / 15, rel=0.05)
    assert at_cores(BUSY, 8) < 0.6 * 390
    assert at_cores(replace(BUSY, on_cpu=0, emulated=True, main_cpu_s=0.0), 1) > 350


def test_it_loses_no_cpus_and_is_promised_none() -> None:
    """The policy may change CPUs at will, and finds every one of them at work."""
    limits = ShapeLimits(max_cpus_per_task=64, node_cores=64)
    before = Shape(cpus_per_task=16, num_workers=1)
    chosen = decide(before, ShapePredictor(known(BUSY)), limits, may_change_cpus="any")
    assert (chosen.action, chosen.after) == ("leave", before)
    assert "its step on the CPUs is the limit" in chosen.reason


def test_more_cores_widen_the_interval_where_threads_follow_them() -> None:
    """Torch has as many threads as cores, unless somebody said how many: then they bring none."""
    wide = Shape(cpus_per_task=32, num_workers=1)
    grows = predict(known(BUSY), wide)
    fixed = predict(known(replace(BUSY, threads=8, main_cpu_s=7 / 400)), wide)
    assert grows.samples_per_s == pytest.approx(390, rel=0.05)
    assert grows.interval.high > 1.8 * 390
    assert grows.interval.low < 0.6 * 390
    assert fixed.interval.high < 1.2 * 390


def test_two_runs_tell_what_a_core_is_worth() -> None:
    """What it takes on one core is its CPU time: threads that wait for each other spin as well."""
    one = replace(BUSY, cores=1, threads=1, accel_samples_per_s=50, samples_per_s=49, workers=0)
    one = replace(one, main_cpu_s=1 / 50)
    four = replace(BUSY, cores=4, threads=4, accel_samples_per_s=125, samples_per_s=121, workers=0)
    four = replace(four, main_cpu_s=4 / 125)
    both = known(four, one)
    rates = [predict(both, Shape(cpus_per_task=c, num_workers=0)).samples_per_s for c in (1, 2, 4)]
    assert rates[0] == pytest.approx(49, rel=0.05)
    assert rates[2] == pytest.approx(121, rel=0.05)
    assert rates[1] == pytest.approx(1 / (0.004 + 0.016 / 2 + 0.0001), rel=0.05)


def test_its_unknown_cpu_time_is_that_of_all_its_threads() -> None:
    """A run that did not tell it may have computed on every core."""
    assert at_cores(replace(BUSY, main_cpu_s=None), 4) == pytest.approx(390 / 4, rel=0.05)
    assert at_cores(replace(BUSY, main_cpu_s=None, threads=None), 4) < 0.3 * 390


# As measured beside six other processes on two cores: wall and CPU time of a product of matrices by
# two threads, and the wait of the training's own thread. One thread alone takes 1.65 ms for it.
STARVED_TWICE = [(0.046455, 0.012671, 0.039310), (0.024514, 0.010978, 0.019481)]
ALONE_S = 0.00165


@pytest.mark.parametrize(("wall_s", "cpu_s", "queued_s"), STARVED_TWICE)
def test_threads_that_spun_for_each_other_are_not_work(
    wall_s: float, cpu_s: float, queued_s: float
) -> None:
    """One thread on a core of its own is several times as fast as their CPU time says."""
    rate = 1 / (wall_s + 0.00001)
    starved = replace(BUSY, samples_per_s=rate, workers=0, cores=2, node_cores=2, threads=2)
    starved = replace(starved, accel_samples_per_s=1 / wall_s, main_cpu_s=cpu_s, batch_size=1)
    starved = replace(starved, fetch_wall_s=0.00001, fetch_cpu_s=0.00001)
    starved = replace(starved, step_queued_s=queued_s, main_queued_s=queued_s)
    told = predict(known(starved), Shape(cpus_per_task=1, num_workers=0))
    assert alone(told).samples_per_s == pytest.approx(1 / ALONE_S, rel=0.35)
    assert alone(told).samples_per_s > 3 / cpu_s
    here = predict(known(starved), Shape(cpus_per_task=2, num_workers=0))
    assert here.samples_per_s == pytest.approx(rate, rel=0.1)
    assert alone(here).interval.high > 0.9 / ALONE_S


# Two ranks of two threads each on two cores, as measured: the threads of each have one.
OUTNUMBERED = replace(
    BUSY,
    samples_per_s=34.6,
    workers=2,
    cores=1,
    node_cores=2,
    threads=2,
    batch_size=4,
    accel_samples_per_s=35.8,
    fetch_wall_s=0.0157,
    fetch_cpu_s=0.0052,
    main_cpu_s=0.0232,
    fetch_queued_s=0.0105,
    step_queued_s=0.0160,
    main_queued_s=0.0163,
)
EACH_ON_HALF_A_CORE = 35.9  # samples/s of the same two ranks on one core, a thread each
ALONE_OF_ONE_S = 0.0083  # a sample's step by one thread


def test_threads_that_outnumber_their_cores_spin_as_well() -> None:
    """Their CPU time is no work, so that a rank with one thread on half a core is as fast."""
    assert invert(OUTNUMBERED).main_cpu_s == pytest.approx(ALONE_OF_ONE_S, rel=0.25)
    told = ShapePredictor(known(OUTNUMBERED), processes=2)(Shape(cpus_per_task=1, num_workers=2))
    assert told.interval.low < EACH_ON_HALF_A_CORE < told.interval.high


def test_how_much_they_wait_for_each_other_nobody_knows() -> None:
    """The step may be as slow as it was, or as fast as threads that never wait."""
    accel = invert(OUTNUMBERED).accel
    low, high = (exp(accel.log_mean + sign * NORMAL_90 * accel.log_sd) for sign in (-1, 1))
    assert low == pytest.approx(35.8, rel=0.15)
    assert high == pytest.approx(1 / ALONE_OF_ONE_S, rel=0.2)
    assert invert(replace(OUTNUMBERED, cores=2)).accel.log_sd < accel.log_sd


def test_a_single_thread_waits_for_nobody() -> None:
    """Its CPU time is its work, however long it waited for its core."""
    starved = replace(BUSY, cores=1, threads=1, workers=0, main_cpu_s=0.004, samples_per_s=50)
    starved = replace(starved, accel_samples_per_s=50, step_queued_s=0.016, main_queued_s=0.016)
    told = predict(known(starved), Shape(cpus_per_task=1, num_workers=0))
    assert alone(told).samples_per_s == pytest.approx(1 / 0.0041, rel=0.05)


def test_it_travels_to_the_node_and_a_line_of_before_is_read() -> None:
    """Two cells more; a step of an accelerator is written as it always was."""
    believed = replace(known(BUSY), seen=tuple((w, w + 0.123) for w in range(99)))
    line = write(believed)
    there = read(line)
    assert there is not None
    assert there.threads == pytest.approx(believed.threads, rel=1e-3)
    assert there.grows
    assert len(line) <= MAX_CHARS
    before = write(known(replace(BUSY, on_cpu=None)))
    found = read(before)
    assert found is not None
    assert (found.threads, found.grows) == (0.0, False)
    assert line.count(",") - before.count(",") >= STEP_CELLS
    assert CELLS > STEP_CELLS
