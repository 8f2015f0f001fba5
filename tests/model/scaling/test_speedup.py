from itertools import pairwise
from math import exp, inf, log, nan

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contrib.bench.throughput.scale.fit_prior import THREADS
from slurm_ext.core.errors import InputError
from slurm_ext.model.scaling.speedup import CountMeasurement, SpeedupCurve, fit
from slurm_ext.model.scaling.speedup_terms import GPUS_EACH, GPUS_SPLIT, SpeedupPrior, log_rates

PRIORS = (GPUS_SPLIT, GPUS_EACH, THREADS)
POINTS = st.lists(
    st.builds(
        CountMeasurement,
        count=st.sampled_from([1, 2, 3, 4, 8]),
        rate=st.floats(1e-3, 1e6),
        log_sd=st.sampled_from([0.0, 0.1]),
    ),
    min_size=1,
    max_size=4,
    unique_by=lambda one: one.count,
)


def amdahl(counts: list[int], serial: float, noise: float = 0.0) -> list[CountMeasurement]:
    """Points of Amdahl's law with a serial share, a rate of 100 on one unit."""
    return [
        CountMeasurement(
            count=k, rate=100 / (serial + (1 - serial) / k) * exp(noise * (-1) ** place)
        )
        for place, k in enumerate(counts)
    ]


@given(points=POINTS, prior=st.sampled_from(PRIORS), count=st.integers(1, 256))
@settings(max_examples=25, deadline=None)
def test_rates_are_positive_and_lie_in_their_interval(
    points: list[CountMeasurement], prior: SpeedupPrior, count: int
) -> None:
    """Whatever was measured, the answer is a positive number inside a finite interval."""
    rate, interval = fit(points, prior).rate(count)
    assert 0 < interval.low <= rate <= interval.high < inf


@given(points=POINTS, prior=st.sampled_from(PRIORS))
@settings(max_examples=15, deadline=None)
def test_no_unit_does_more_than_the_best_measured(
    points: list[CountMeasurement], prior: SpeedupPrior
) -> None:
    """Extrapolated, a unit never does more than one did at the most efficient measured count."""
    fitted = fit(points, prior)
    best = max(one.rate / one.count for one in points)
    largest = max(one.count for one in points)
    for count in (largest * 2, largest * 8):
        assert fitted.rate(count)[0] <= best * count * 1.0001


@given(points=POINTS, prior=st.sampled_from(PRIORS))
@settings(max_examples=15, deadline=None)
def test_farther_is_never_surer(points: list[CountMeasurement], prior: SpeedupPrior) -> None:
    """Beyond what was measured, the interval relative to the rate does not narrow."""
    fitted = fit(points, prior)
    largest = max(one.count for one in points)
    widths = [width(fitted, largest * times) for times in (1, 1.3, 2, 2.9, 4, 8, 16)]
    assert all(far >= near - 1e-9 for near, far in pairwise(widths))


@given(terms=st.tuples(*[st.floats(-8, 4)] * 4), splits=st.booleans())
def test_no_curve_is_super_linear(terms: tuple[float, ...], splits: bool) -> None:
    """A doubling of the units at most doubles the rate, whatever the terms."""
    counts = np.array([2.0**power for power in range(10)])
    rates = log_rates(np.array([terms]), counts, splits=splits)[0]
    assert rates[0] == pytest.approx(0, abs=1e-9)
    assert (np.diff(rates) <= log(2) + 1e-9).all()


def test_amdahls_law_is_found_again() -> None:
    """Of a job that follows Amdahl's law, eight units are told from one, two and four."""
    for serial in (0.02, 0.2, 0.8):
        rate, interval = fit(amdahl([1, 2, 4], serial), GPUS_SPLIT).rate(8)
        truth = amdahl([8], serial)[0].rate
        assert rate == pytest.approx(truth, rel=0.08)
        assert interval.low < truth < interval.high


def test_what_cannot_be_divided_stays() -> None:
    """A job that gains nothing from two and four units is told to gain nothing from 32."""
    points = [CountMeasurement(count=k, rate=28.0) for k in (1, 2, 4)]
    rate, _ = fit(points, GPUS_SPLIT).rate(32)
    assert 18 < rate < 32


def test_more_points_make_a_narrower_interval() -> None:
    """The interval at 16 units shrinks as 1, then 2, 4 and 8 are measured."""
    widths = [width(fit(amdahl([1, 2, 4, 8][:n], 0.1), GPUS_SPLIT), 16) for n in (1, 2, 3, 4)]
    assert widths == sorted(widths, reverse=True)


def test_noisy_points_are_believed_less() -> None:
    """Points of which the repetitions differ leave a wider interval than sure ones."""
    sure = amdahl([1, 2, 4], 0.1)
    shaky = [CountMeasurement(count=one.count, rate=one.rate, log_sd=0.3) for one in sure]
    assert width(fit(shaky, THREADS), 8) > 1.5 * width(fit(sure, THREADS), 8)


@pytest.mark.parametrize("sharp", [0.5, 1.0, 3.0])
def test_steady_threads_show_their_own_law(sharp: float) -> None:
    """Eight threads are told from two and four: after a power, Amdahl's law or a hard floor."""
    rates = {k: ((0.15 + 0.85 * k**-sharp) ** (-1 / sharp)) for k in (1, 2, 4, 8)}
    known = [CountMeasurement(count=k, rate=rates[k], log_sd=0.005) for k in (1, 2, 4)]
    assert fit(known, THREADS).rate(8)[0] == pytest.approx(rates[8], rel=0.03)


def test_contradicting_points_widen_the_interval() -> None:
    """A curve that no law explains is answered with more doubt, not with false precision."""
    rugged = amdahl([1, 2, 4], 0.1, noise=0.4)
    assert width(fit(rugged, THREADS), 8) > 1.5 * width(fit(amdahl([1, 2, 4], 0.1), THREADS), 8)


def test_waiting_grows_with_what_gradients_cost() -> None:
    """Where units mostly wait for each other the network's share says so, and hardly elsewhere."""
    free = fit([CountMeasurement(count=k, rate=10.0 * k) for k in (1, 2, 4)], GPUS_EACH)
    bound = fit([CountMeasurement(count=1, rate=10), CountMeasurement(count=2, rate=5)], GPUS_EACH)
    assert free.shares(8).network < 0.1
    assert bound.shares(2).network > 0.5
    assert bound.shares(1).network == 0
    for one in (free.shares(8), bound.shares(8)):
        assert one.compute + one.network == pytest.approx(1)


def test_the_same_evidence_gives_the_same_answer() -> None:
    """Nothing in an answer is left to chance."""
    assert fit(amdahl([1, 4], 0.1), THREADS).rate(8) == fit(amdahl([1, 4], 0.1), THREADS).rate(8)


def test_the_unit_of_the_rate_does_not_matter() -> None:
    """Rates in another unit give the same answer in that unit."""
    points = amdahl([1, 2, 4], 0.1)
    other = [CountMeasurement(count=one.count, rate=one.rate * 1e6) for one in points]
    assert fit(other, THREADS).rate(8)[0] == pytest.approx(fit(points, THREADS).rate(8)[0] * 1e6)


@pytest.mark.parametrize(
    ("points", "why"),
    [
        ([], "none"),
        ([CountMeasurement(count=1, rate=0)], "rate = 0 at 1"),
        ([CountMeasurement(count=1, rate=-2)], "rate = -2 at 1"),
        ([CountMeasurement(count=1, rate=nan)], "rate = nan at 1"),
        ([CountMeasurement(count=0, rate=2)], "0: expected 1 to"),
        ([CountMeasurement(count=inf, rate=2)], "inf: expected 1 to"),
        ([CountMeasurement(count=nan, rate=2)], "nan: expected 1 to"),
        ([CountMeasurement(count=2, rate=2, log_sd=-1)], "log_sd = -1 at 2"),
    ],
)
def test_what_cannot_be_a_measurement_is_named(points: list[CountMeasurement], why: str) -> None:
    """A bad point is refused with its value and what would be valid."""
    with pytest.raises(InputError, match=why):
        fit(points, THREADS)


def test_a_count_that_cannot_be_is_named() -> None:
    """Nobody is told the rate of no GPUs."""
    with pytest.raises(InputError, match="expected 1 to"):
        fit(amdahl([1, 2], 0.1), GPUS_SPLIT).rate(0)


def width(fitted: SpeedupCurve, count: float) -> float:
    """The interval's width in logs."""
    _, interval = fitted.rate(count)
    return log(interval.high / interval.low)
