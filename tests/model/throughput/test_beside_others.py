"""Runs beside other jobs on their cores: what holds there is what is acted on."""

from dataclasses import replace

import pytest

from slurm_ext.core.records import Level, LoaderRun, Shape, ShapeLimits
from slurm_ext.core.stalls.own_queue import waited
from slurm_ext.model.throughput.crowded_shares import CrowdedShares
from slurm_ext.model.throughput.curve.beside import at_beside
from slurm_ext.model.throughput.curve.costs import Curve
from slurm_ext.model.throughput.curve.points import at
from slurm_ext.model.throughput.estimate import Estimate, estimate
from slurm_ext.model.throughput.inversion import invert
from slurm_ext.model.throughput.shape_predictor import ShapePredictor, predict
from slurm_ext.model.throughput.surroundings import LAST, others, others_of
from slurm_ext.policy.loader import decide
from tests.builders import alone

CURVE = Curve(accel_samples_per_s=400, fetch_wall_s=0.02, fetch_cpu_s=0.018, main_cpu_s=0.0005)
RUN = LoaderRun(
    samples_per_s=97,
    workers=2,
    cores=4,
    batch_size=32,
    accel_samples_per_s=400,
    fetch_wall_s=0.02,
    fetch_cpu_s=0.018,
    main_cpu_s=0.0005,
    emulated=True,
    fetch_queued_s=0.0,
    step_queued_s=0.0,
    main_queued_s=0.0,
)


def met(count: float, **changes: float) -> LoaderRun:
    """What CURVE gives beside so many processes for each core, with the wait that this takes."""
    run = replace(RUN, **changes)  # type: ignore[arg-type]  # its shape
    rate = at_beside(CURVE, count, run.workers, run.cores).samples_per_s
    queued_s = run.workers / rate - 0.02
    return replace(run, samples_per_s=rate, fetch_wall_s=0.02 + queued_s, fetch_queued_s=queued_s)


def known(*runs: LoaderRun) -> Estimate:
    """The estimate from runs, which has to be there."""
    answer = estimate({Level.SCRIPT_ARGS: list(runs)})
    assert answer is not None
    return answer


@pytest.mark.parametrize("count", [1.0, 2.0, 5.0])
def test_others_are_found_by_what_they_cost(count: float) -> None:
    """As many as make the curve give the measured rate."""
    assert others_of(met(count), CURVE) == pytest.approx(count, rel=0.01)


def test_only_a_run_that_waited_and_was_slower_met_others() -> None:
    """A slow run that waited for no core was slow by itself; a wait that cost nothing is none."""
    slow = met(2.0)
    for silent in (replace(slow, fetch_queued_s=0.0), replace(slow, fetch_queued_s=None)):
        assert others([silent], [invert(silent)]) == (0, False)
    assert others_of(replace(RUN, fetch_queued_s=0.01), CURVE) == 0
    assert waited(replace(RUN, fetch_queued_s=0.0185)) == pytest.approx(0.5)


def test_own_workers_that_share_a_core_are_no_others() -> None:
    """Eight workers on one core wait for each other: its own cores would be no faster."""
    rate = at(CURVE, 8, 1).samples_per_s
    own = replace(RUN, workers=8, cores=1, samples_per_s=rate, fetch_queued_s=0.12)
    assert others_of(replace(own, fetch_wall_s=0.14), CURVE) == 0


def test_the_last_runs_count_and_older_ones_do_not() -> None:
    """Neighbours come and go: a mean of the few that met any."""
    runs = [met(3.0), RUN, met(1.0), met(9.0)]
    assert LAST == 3
    count, theirs = others(runs, [invert(run) for run in runs])
    assert count == pytest.approx(2.0, rel=0.1)
    assert theirs
    assert others([], []) == (0, False)


def test_beside_others_the_measured_rate_is_predicted_again() -> None:
    """Here, what the last run met; alone, what its costs say; each in an interval of its own."""
    told = predict(known(met(2.0)), Shape(cpus_per_task=4, num_workers=2))
    assert told.samples_per_s == pytest.approx(met(2.0).samples_per_s, rel=0.05)
    assert told.interval.low < told.samples_per_s < told.interval.high < 97
    assert alone(told).samples_per_s == pytest.approx(97, rel=0.05)
    assert alone(told).interval.low < 97 < alone(told).interval.high


def test_a_shape_that_nobody_crowded_bounds_no_share() -> None:
    """A quiet run on one core, where a crowd would cost most, says nothing of four."""
    one = replace(RUN, cores=1, samples_per_s=at(CURVE, 2, 1).samples_per_s)
    here = Shape(cpus_per_task=4, num_workers=2)
    alone_seen, both = known(met(1.0)), known(met(1.0), one)
    assert both.crowded == ((2, 4),)
    told = (
        predict(both, here).samples_per_s / predict(replace(both, others=0.0), here).samples_per_s
    )
    same = predict(alone_seen, here)
    quiet = predict(replace(alone_seen, others=0.0), here)
    assert told == pytest.approx(same.samples_per_s / quiet.samples_per_s, rel=0.1)


def test_more_workers_take_no_larger_share_of_the_cores() -> None:
    """No shape is left more of its rate than the runs were, nor than with fewer workers."""
    left = CrowdedShares(CURVE, 2.0, ((2, 4.0),))
    found = [left(workers, 4.0) for workers in (0, 1, 2, 3, 4, 8, 16, 64)]
    assert max(found) == pytest.approx(left(2, 4.0))
    assert found[2:] == sorted(found[2:], reverse=True)


def test_a_gain_here_is_never_larger_than_one_alone() -> None:
    """What only an empty node would bring is not promised."""
    crowded, quiet = ShapePredictor(known(met(2.0))), ShapePredictor(known(RUN))
    few, many = (Shape(cpus_per_task=4, num_workers=workers) for workers in (2, 6))
    here = crowded(many).samples_per_s / crowded(few).samples_per_s
    assert here <= 1.001 * quiet(many).samples_per_s / quiet(few).samples_per_s


def test_a_fair_share_of_full_cores() -> None:
    """One process beside one other on one core: everything that it computes takes twice as long."""
    alone = Curve(accel_samples_per_s=1e6, fetch_wall_s=0.01, fetch_cpu_s=0.01)
    assert at_beside(alone, 1.0, 0, 1).samples_per_s == pytest.approx(50, rel=0.01)
    assert at_beside(alone, 0.25, 0, 4).samples_per_s == pytest.approx(100, rel=0.01)


def test_a_step_on_cpus_waits_for_them_as_fetching_does() -> None:
    """One thread of two cores beside two others has half of a core; two need both at once."""
    curve = Curve(
        accel_samples_per_s=100,
        fetch_wall_s=1e-5,
        fetch_cpu_s=1e-5,
        main_cpu_s=0.02,
        threads=2,
    )
    assert at_beside(curve, 1.0, 0, 2).samples_per_s == pytest.approx(25, rel=0.01)
    apart = replace(curve, main_cpu_s=0.01)  # one of its threads computes while the other waits
    assert at_beside(apart, 1.0, 0, 2).samples_per_s == pytest.approx(50, rel=0.01)


def test_a_starved_job_on_a_gpu_keeps_its_cpus() -> None:
    """It was slow because it waited: fewer CPUs are no answer, and the reason is told."""
    starved = met(4.0)
    before = Shape(cpus_per_task=4, num_workers=2)
    limits = ShapeLimits(max_cpus_per_task=8, node_cores=8)
    told = ShapePredictor(known(starved))
    assert decide(before, told, limits).after.cpus_per_task == 4
