"""One job beside several: sums of slowdowns on a GPU, products of speeds on CPUs."""

from math import sqrt

import pytest

from slurm_ext.core.gpu_sharing import RelativeSpeed, SpeedBasis
from slurm_ext.model.slowdown.composition import LEAST, added, compose, weakest


def pair(
    mean: float, low: float, high: float = 1.2, by: SpeedBasis = SpeedBasis.PAIR, runs: int = 3
) -> RelativeSpeed:
    """A speed beside one partner."""
    return RelativeSpeed(mean=mean, low=low, high=high, evidence=by, runs=runs)


def test_beside_nobody_a_job_is_as_fast_as_alone() -> None:
    """Certain; and beside one other it is that pair's speed."""
    alone = compose([], on_cpu=True)
    assert (alone.mean, alone.low, alone.high, alone.runs) == (1.0, 1.0, 1.0, 0)
    assert compose([pair(0.5, 0.4)], on_cpu=False) == pair(0.5, 0.4)


def test_slowdowns_add_on_a_gpu() -> None:
    """1 / (1 + 1 + 0.25); the bound is the product of bounds."""
    both = compose([pair(0.5, 0.4, 0.9), pair(0.8, 0.7, 1.1, runs=2)], on_cpu=False)
    assert both.mean == pytest.approx(1 / 2.25)
    assert both.low == pytest.approx(0.28)
    assert (both.high, both.runs) == (0.9, 2)


def test_speeds_multiply_on_cpus() -> None:
    """The bound is the product to the power of the root of the number."""
    both = compose([pair(0.5, 0.4), pair(0.8, 0.7)], on_cpu=True)
    assert both.mean == pytest.approx(0.4)
    assert both.low == pytest.approx(0.28 ** sqrt(2))
    three = compose([pair(0.9, 0.8)] * 3, on_cpu=True)
    assert three.low == pytest.approx(0.8 ** (3 * sqrt(3)))


def test_no_partner_speeds_a_job_up() -> None:
    """Speeds above 1 count as 1."""
    for on_cpu in (True, False):
        both = compose([pair(1.2, 1.1, 1.3), pair(0.5, 0.4)], on_cpu=on_cpu)
        assert both.mean == pytest.approx(0.5)
        assert both.low == pytest.approx(0.4 ** (sqrt(2) if on_cpu else 1))


def test_nothing_falls_below_the_least_speed() -> None:
    """Neither mean nor bound; the high end is never below the mean, the low never above it."""
    for on_cpu in (True, False):
        slow = compose([pair(0.01, 0.001, 0.005)] * 3, on_cpu=on_cpu)
        assert slow.mean == slow.high if on_cpu else slow.mean >= LEAST
        assert slow.low == LEAST
    assert added([0.0, 1.0]) == LEAST
    assert added([]) == 1.0
    tight = compose([pair(0.5, 0.99), pair(0.5, 0.99)], on_cpu=False)
    assert tight.low == tight.mean == pytest.approx(1 / 3)


def test_the_weakest_evidence_counts() -> None:
    """In the order of the basis, whichever partner comes first."""
    strong, weak = pair(1, 1), pair(1, 1, by=SpeedBasis.PRIOR)
    assert weakest([strong, weak]) is weakest([weak, strong]) is SpeedBasis.PRIOR
    assert weakest([strong, pair(1, 1, by=SpeedBasis.COMPLETED)]) is SpeedBasis.COMPLETED


def test_bounds_above_1_count_as_1() -> None:
    """A partner whose lower bound is beyond full speed makes no other's bound better."""
    for on_cpu in (True, False):
        both = compose([pair(1.9, 1.8, 2.0), pair(0.5, 0.4)], on_cpu=on_cpu)
        assert both.low == pytest.approx(0.4 ** (sqrt(2) if on_cpu else 1))
