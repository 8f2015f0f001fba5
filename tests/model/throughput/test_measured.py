"""A shape in which a script has run is told as it ran, and no other one."""

from dataclasses import replace
from math import exp

import pytest

from slurm_ext.core.records import Level, LoaderRun, Shape
from slurm_ext.model.throughput.estimate import Estimate, estimate
from slurm_ext.model.throughput.measured import CURVE_COUNTS
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
    assert told.interval.high / told.interval.low == pytest.approx(
        curve.interval.high / curve.interval.low
    )
    return curve.samples_per_s, told.samples_per_s


def test_a_shape_that_ran_is_told_as_it_ran() -> None:
    """Nearer to its runs than to the curve, and the nearer the more of them there are."""
    apart = []
    for count in (1, 3):
        curve, told = both(known(*[SLOW] * count, FAST), HERE)
        apart.append(abs(told / SLOW.samples_per_s - 1))
        assert apart[-1] < abs(curve / SLOW.samples_per_s - 1) / 2
    assert apart[1] < apart[0]


def test_its_weight_is_that_of_its_runs() -> None:
    """One run against a curve that counts as a part of one."""
    one = replace(known(SLOW), measured=((2, SLOW.cores, 0.0, 1),))
    curve, told = both(one, HERE)
    assert told == pytest.approx(curve ** (CURVE_COUNTS / (1 + CURVE_COUNTS)))


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
