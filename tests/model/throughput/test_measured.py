"""A shape in which a script has run is told as it ran, and no other one."""

from dataclasses import replace
from math import exp

import pytest

from slurm_ext.core.records import Level, LoaderRun, Shape
from slurm_ext.model.throughput.estimate import Estimate, estimate
from slurm_ext.model.throughput.inversion import LogNormal
from slurm_ext.model.throughput.measured import AGAIN_SD, UNSEEN_SD, with_measured
from slurm_ext.model.throughput.shape_predictor import ShapePredictor
from tests.builders import STARVED

SLOW = replace(STARVED, fetch_queued_s=0.0, step_queued_s=0.0, main_queued_s=0.0, workers=2)
FAST = replace(SLOW, samples_per_s=1.1 * SLOW.samples_per_s, workers=4)
HERE = Shape(cpus_per_task=int(SLOW.cores), num_workers=2)


def known(*runs: LoaderRun, level: Level = Level.SCRIPT_ARGS) -> Estimate:
    """The estimate from runs, which has to be there."""
    answer = estimate({level: list(runs)})
    assert answer is not None
    return answer


def both(one: Estimate, shape: Shape) -> tuple[float, float]:
    """The curve's rate, and the one that is told."""
    curve, told = (ShapePredictor(one, as_measured=told)(shape) for told in (False, True))
    return curve.samples_per_s, told.samples_per_s


def test_a_shape_that_ran_is_told_as_it_ran() -> None:
    """Nearer to its runs than to the curve, and the nearer the more of them there are."""
    apart = []
    for count in (1, 3):
        curve, told = both(known(*[SLOW] * count, FAST), HERE)
        apart.append(abs(told / SLOW.samples_per_s - 1))
        assert apart[-1] < abs(curve / SLOW.samples_per_s - 1) / 2
    assert apart[1] < apart[0]


@pytest.mark.parametrize("count", [1, 4])
def test_its_runs_weigh_the_more_the_less_the_curve_is_sure(count: int) -> None:
    """The rate is that of both, by their variances; so is the interval, which more runs narrow."""
    measured = ((2, 1.0, 1.0, count),)
    even = with_measured(measured, 2, 1.0, LogNormal(0.0, AGAIN_SD / count**0.5))
    assert even.log_mean == pytest.approx(0.5)
    doubtful = with_measured(measured, 2, 1.0, LogNormal(0.0, 1.0))
    assert doubtful.log_mean == pytest.approx(1.0, abs=0.001)
    assert doubtful.log_sd == pytest.approx(
        (AGAIN_SD**2 / count + (UNSEEN_SD / count) ** 2) ** 0.5, rel=0.001
    )
    assert with_measured(measured, 3, 1.0, LogNormal(0.0, 1.0)) == LogNormal(0.0, 1.0)


def test_the_interval_is_that_of_what_is_told() -> None:
    """As far below it as above."""
    told = ShapePredictor(known(SLOW, SLOW), as_measured=True)(HERE)
    middle = (told.interval.low * told.interval.high) ** 0.5
    assert told.samples_per_s == pytest.approx(middle)
    assert told.interval.high < 1.15 * told.interval.low


@pytest.mark.parametrize("change", [{"num_workers": 3}, {"cpus_per_task": 1}])
def test_a_shape_that_nobody_ran_is_the_curves(change: dict[str, int]) -> None:
    """However near it is."""
    curve, told = both(known(SLOW, FAST), replace(HERE, **change))
    assert curve == told


def test_a_crowd_measures_nothing() -> None:
    """Its run waited for others' cores: nobody else's rate."""
    crowd = replace(SLOW, samples_per_s=0.6 * SLOW.samples_per_s, fetch_queued_s=SLOW.fetch_wall_s)
    assert {at[:2] for at in known(crowd, FAST).measured} == {(4, SLOW.cores)}


def test_other_programs_measure_nothing() -> None:
    """Runs of a kind are other programs' rates."""
    assert known(*[SLOW] * 3, level=Level.KIND).measured == ()
    assert exp(known(SLOW).measured[0][2]) == pytest.approx(SLOW.samples_per_s)
