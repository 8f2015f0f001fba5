"""Runs whose cores others wanted, too: what they teach of cores of their own, and of there."""

from dataclasses import replace
from math import exp

import pytest

from slurm_ext.core.records import Level, LoaderRun, Shape, ShapeLimits
from slurm_ext.model.throughput.estimate import Estimate, estimate
from slurm_ext.model.throughput.inversion import invert
from slurm_ext.model.throughput.shape_predictor import ShapePredictor, predict
from slurm_ext.model.throughput.storage import ceiling
from slurm_ext.policy.loader import decide

QUIET = LoaderRun(
    samples_per_s=97,
    workers=2,
    cores=4,
    batch_size=32,
    accel_samples_per_s=400,
    fetch_wall_s=0.02,
    fetch_cpu_s=0.018,
    main_cpu_s=0.0001,
    node_cores=4,
    emulated=True,
    fetch_queued_s=0.0,
    step_queued_s=0.0,
    main_queued_s=0.0001,
    sample_bytes=150_000,
)
# Half of every core went to another job: what ran on a CPU took twice as long.
CROWDED = replace(
    QUIET,
    samples_per_s=51,
    fetch_wall_s=0.038,
    fetch_queued_s=0.018,
    accel_samples_per_s=385,
    step_queued_s=0.0001,
    main_queued_s=0.0004,
)


def known(run: LoaderRun) -> Estimate:
    """The estimate from one run, which has to be there."""
    answer = estimate({Level.SCRIPT_ARGS: [run]})
    assert answer is not None
    return answer


@pytest.mark.parametrize(("workers", "cores"), [(0, 4), (1, 2), (4, 4), (8, 4)])
def test_a_crowded_run_tells_both_rates(workers: int, cores: int) -> None:
    """The next run may have its cores to itself, or not: each has an interval of its own."""
    shape = Shape(cpus_per_task=cores, num_workers=workers)
    quiet, crowded = predict(known(QUIET), shape), predict(known(CROWDED), shape)
    assert quiet.elsewhere is None
    assert crowded.samples_per_s < 0.6 * quiet.samples_per_s
    assert crowded.interval.low < crowded.samples_per_s < crowded.interval.high
    told = crowded.elsewhere.samples_per_s if crowded.elsewhere else crowded.interval.high
    assert told >= 0.95 * quiet.samples_per_s


def test_a_crowded_run_asks_for_no_more_workers_than_a_quiet_one() -> None:
    """Waiting for cores is not waiting for storage, which more workers would hide."""
    limits = ShapeLimits(max_cpus_per_task=4, node_cores=4)
    before = Shape(cpus_per_task=4, num_workers=2)
    chosen = [decide(before, ShapePredictor(known(run)), limits).after for run in (QUIET, CROWDED)]
    assert chosen[1].num_workers <= chosen[0].num_workers
    silent = replace(CROWDED, fetch_queued_s=None, step_queued_s=None, main_queued_s=None)
    guessed = decide(before, ShapePredictor(known(silent)), limits).after
    assert chosen[1].num_workers < guessed.num_workers


def test_readers_that_waited_for_cores_show_no_ceiling_of_storage() -> None:
    """Twice the workers for the same rate: slow storage, unless it was the cores."""
    few = replace(QUIET, workers=4, samples_per_s=100, fetch_wall_s=0.04, fetch_cpu_s=0.001)
    many = replace(few, workers=8, samples_per_s=103, fetch_wall_s=0.078)
    assert ceiling([few, many]) == 103
    assert ceiling([few, replace(many, fetch_queued_s=0.05)]) is None


def test_an_emulated_step_is_told_without_its_wait_for_a_core() -> None:
    """A timed wait that ended late is no slower accelerator; a real one went on meanwhile."""
    late = replace(CROWDED, accel_samples_per_s=250, step_queued_s=0.0015)
    assert exp(invert(late).accel.log_mean) == pytest.approx(400, rel=0.03)
    real = invert(replace(late, emulated=False)).accel
    assert 250 < exp(real.log_mean) < 400
    assert real.log_sd > 2 * invert(replace(late, step_queued_s=0.0)).accel.log_sd


def test_a_kernel_that_lets_woken_processes_run_at_once_is_believed() -> None:
    """A run on a full single core whose training never queued: the next one will not, either."""
    held = replace(
        QUIET,
        cores=1,
        workers=1,
        samples_per_s=38,
        accel_samples_per_s=40,
        fetch_wall_s=0.019,
        main_queued_s=0.003 / 32,
    )
    free = replace(held, main_queued_s=0.0, samples_per_s=39.5)
    shape = Shape(cpus_per_task=1, num_workers=1)
    rates = [predict(known(run), shape).samples_per_s for run in (held, free)]
    assert rates[1] > rates[0]
    slices = [invert(run).slice_s for run in (held, free)]
    assert slices == [pytest.approx(0.003, rel=0.1), 0.0]


# Measured on one core by contrib/bench/curve: batches of 8, fetched in next to no time, an
# accelerator of 125 samples/s; alone, and among six busy processes of others.
COMPUTE = LoaderRun(
    samples_per_s=118.9,
    workers=1,
    cores=1,
    batch_size=8,
    accel_samples_per_s=124.5,
    fetch_wall_s=0.00011,
    fetch_cpu_s=0.000093,
    main_cpu_s=0.00014,
    emulated=True,
    fetch_queued_s=0.000018,
    step_queued_s=0.000005,
    main_queued_s=0.00024,
)
AMONG_OTHERS = replace(
    COMPUTE,
    samples_per_s=99.6,
    accel_samples_per_s=111.7,
    step_queued_s=0.00096,
    main_queued_s=0.00159,
)


@pytest.mark.parametrize("run", [COMPUTE, AMONG_OTHERS], ids=["alone", "among others"])
def test_what_others_made_a_loop_wait_is_not_its_workers_fault(run: LoaderRun) -> None:
    """A job that the accelerator limits keeps its worker, however crowded its node was.

    Loading without workers waits for no batch; so waiting that others caused, counted as the price
    of workers, once told a compute-bound job to do without.
    """
    shape = Shape(cpus_per_task=1, num_workers=1)
    limits = ShapeLimits(max_cpus_per_task=1, node_cores=2)
    decision = decide(shape, ShapePredictor(known(run)), limits)
    assert (decision.action, decision.after) == ("leave", shape)
    told = predict(known(run), shape)
    assert (told.elsewhere or told).samples_per_s == pytest.approx(120, rel=0.03)
    assert told.samples_per_s == pytest.approx(run.samples_per_s, rel=0.03)
    assert invert(run).receive_s is None


def test_a_slow_receipt_on_a_quiet_node_is_still_believed() -> None:
    """Where the loop waited for no core, what a batch took to arrive is its own."""
    slow = replace(COMPUTE, samples_per_s=108, main_queued_s=0.00002, step_queued_s=0.0)
    assert invert(slow).receive_s == pytest.approx(0.0096, rel=0.05)
