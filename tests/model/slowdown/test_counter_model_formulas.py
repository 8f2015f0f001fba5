"""The model from counters by its formula: posterior, widths, gaps and views of two jobs."""

from dataclasses import replace
from math import exp, log, sqrt

import numpy as np
import pytest

from slurm_ext.core.gpu_sharing import SoloProfile
from slurm_ext.model.slowdown.counter_kernel import (
    kernel_blocks,
    prior_variances,
)
from slurm_ext.model.slowdown.counter_model import (
    LEAST_KNOWN,
    CounterJobs,
    CounterModel,
    PairObservations,
    collect_jobs,
    gaps,
    log_odds,
    noise_var,
    same,
    speed_of,
    view,
)
from slurm_ext.model.slowdown.features import (
    CounterColumn,
    Positions,
    Scale,
)
from tests.model.slowdown.test_counter_kernel_formulas import LIKENESS, two_columns


def test_log_odds_are_kept_from_both_ends() -> None:
    """Below 3 % and above 97 % of the top a measured speed says no more."""
    speeds = np.array([0.5, 0.03, 0.01, 0.97 * 1.2, 1.19])
    expected = [log(1.2 / 0.5 - 1), log(39.0), log(39.0), log(1 / 0.97 - 1), log(1 / 0.97 - 1)]
    assert log_odds(speeds, 1.2) == pytest.approx(expected)
    assert speed_of(np.array([0.0, log(3.0)]), 1.2) == pytest.approx([0.6, 0.3])


def test_the_noise_of_a_speed_counts_more_near_the_ends() -> None:
    """(speed noise x top / (s (top - s)))² + noise², with s between 3 % and 97 % of the top."""
    variances = noise_var(LIKENESS, np.array([0.6, 0.3, 0.0, 2.0]), 1.2)
    slopes = [1.2 / 0.36, 1.2 / 0.27, 1.2 / (0.03 * 1.17), 1.2 / (1.164 * 0.036)]
    assert variances == pytest.approx([(0.04 * slope) ** 2 + 0.0064 for slope in slopes])


def test_equal_keys_are_runs_of_one_job_but_not_empty_ones() -> None:
    """A job without a key is like no other, not even like another without."""
    assert same(["a", "b", ""], ["b", "a", ""]).tolist() == [[0, 1, 0], [1, 0, 0], [0, 0, 0]]


def test_each_job_is_placed_once() -> None:
    """The same key with other counters is another job."""
    a, b = SoloProfile(key="x", features={"a": 12.0}), SoloProfile(key="x", features={"a": 14.0})
    c = SoloProfile(key="y", features={"a": 12.0})
    jobs, (rows, besides) = collect_jobs(two_columns(0.0), [(a, b), (b, c), (a, a)])
    assert jobs.keys == ("x", "x", "y")
    assert (rows.tolist(), besides.tolist()) == ([0, 1, 0], [1, 2, 0])
    assert jobs.places.at[:, 0] == pytest.approx([1.0, 2.0, 1.0])


def test_the_gap_of_a_pair_is_its_least_known_counter() -> None:
    """Of either job."""
    places = Positions(np.zeros((3, 2)), np.array([[0.0, 0.1], [0.4, 0.2], [0.0, 0.0]]))
    assert gaps(places, (np.array([0, 1, 2]), np.array([2, 0, 2]))).tolist() == [0.1, 0.4, 0.0]


def fitted(**changes: object) -> CounterModel:
    """One measured pair of jobs a and b, both with all counters, in one view."""
    scale = two_columns(0.0)
    solos = (_solo("a", 12.0, 6.0), _solo("b", 8.0, 14.0))
    jobs, rows = collect_jobs(scale, [solos, (solos[1], solos[0])])
    met = PairObservations(rows, np.array([0.2, -0.6]), np.array([0.01, 0.03]))
    views = (view(LIKENESS, jobs, met, (0, 1)),)
    model = CounterModel("v100", scale, LIKENESS, jobs, met, views, 1.2)
    return replace(model, **changes)  # type: ignore[arg-type]  # by name


def _solo(key: str, a: float, b: float) -> SoloProfile:
    return SoloProfile(key=key, features={"a": a, "b": b})


def test_the_prediction_is_the_posterior_of_the_process() -> None:
    """Mean level + k C⁻¹ (y - level), variance prior - k C⁻¹ k, both by plain algebra."""
    model = fitted()
    assert model.met.level == pytest.approx(-0.2)
    new = _solo("c", 11.0, 9.0)
    beside = _solo("b", 8.0, 14.0)
    places = model.scale.place([_solo("a", 12.0, 6.0).features, beside.features, new.features])
    blocks = kernel_blocks(LIKENESS, places, places, np.eye(3))
    met, query = (np.array([0, 1]), np.array([1, 0])), (np.array([2]), np.array([1]))
    covariance = blocks.between(met, met) + np.diag([0.01, 0.03])
    towards = blocks.between(query, met)
    middle = -0.2 + (towards @ np.linalg.solve(covariance, [0.4, -0.4]))[0]
    left = prior_variances(LIKENESS, places, query)[0]
    left -= (towards @ np.linalg.solve(covariance, towards.T))[0, 0]
    speeds = model.speeds([(new, beside)])
    assert speeds.log_odds[0] == pytest.approx(middle)
    mean = 1.2 / (1 + exp(middle))
    sd = sqrt(left + noise_var(LIKENESS, np.array([mean]), 1.2)[0])
    assert speeds.log_odds_sd[0] == pytest.approx(sd)
    assert speeds.mean[0] == pytest.approx(mean)
    assert (speeds.reference.tolist(), speeds.top) == ([1.0], 1.2)
    assert speeds.missed(speeds.mean) == pytest.approx([0.0])
    assert speeds.missed(speed_of(np.array([middle + 2 * sd]), 1.2)) == pytest.approx([2.0])


def test_widths_and_references_shape_the_interval() -> None:
    """Below and above by sds of their own, half as wide again on another device."""
    new, beside = _solo("c", 11.0, 9.0), _solo("b", 8.0, 14.0)
    model = fitted(widths=(2.0, 1.0), references={"c": 0.5, "b": 0.1})
    plain = fitted().speeds([(new, beside)])
    odds, sd = float(plain.log_odds[0]), float(plain.log_odds_sd[0])
    for device, wide in (("v100", sd), (None, sd), ("a100", 1.5 * sd)):
        speed = model.speed(new, beside, device)
        assert speed.mean == pytest.approx(0.6 / (1 + exp(odds)))
        assert speed.low == pytest.approx(0.6 / (1 + exp(odds + 2.0 * wide)))
        assert speed.high == pytest.approx(0.6 / (1 + exp(odds - 1.0 * wide)))


def test_gaps_bring_back_the_process_s_own_interval() -> None:
    """By the variance of the least known counter; a width above the normal one stays."""
    model = fitted(widths=(1.0, 3.0), scale=two_columns(0.6))
    speeds = model.speeds([(SoloProfile(key="c", features={"a": 11.0}), _solo("b", 8.0, 14.0))])
    odds, sd = float(speeds.log_odds[0]), float(speeds.log_odds_sd[0])
    below = 1.0 + (1.645 - 1.0) * 0.64
    assert speeds.low[0] == pytest.approx(1.2 / (1 + exp(odds + below * sd)))
    assert speeds.high[0] == pytest.approx(1.2 / (1 + exp(odds - 3.0 * sd)))


def test_views_are_averaged_and_their_disagreement_widens() -> None:
    """Means of the means and of the variances, plus the variance between the means."""
    whole = fitted()
    single = view(LIKENESS, whole.jobs, whole.met, (1,))
    new, beside = _solo("c", 11.0, 9.0), _solo("b", 8.0, 14.0)
    parts = [replace(whole, views=(one,)).speeds([(new, beside)]) for one in (*whole.views, single)]
    both = replace(whole, views=(*whole.views, single)).speeds([(new, beside)])
    odds = [float(part.log_odds[0]) for part in parts]
    assert both.log_odds[0] == pytest.approx(sum(odds) / 2)

    def left(speeds: object, middle: float) -> float:
        sd = float(speeds.log_odds_sd[0])  # type: ignore[attr-defined]  # SpeedPredictions
        return sd**2 - float(noise_var(LIKENESS, speed_of(np.array([middle]), 1.2), 1.2)[0])

    spread = (left(parts[0], odds[0]) + left(parts[1], odds[1])) / 2
    spread += ((odds[0] - odds[1]) / 2) ** 2
    assert left(both, sum(odds) / 2) == pytest.approx(spread)


def test_a_job_with_too_few_counters_is_not_predicted() -> None:
    """Three tenths of the columns and at least one; a CPU's model never speaks of a GPU."""
    assert LEAST_KNOWN == 0.3
    columns = tuple(CounterColumn(name) for name in "abcdefghij")
    scale = Scale(columns, np.zeros(10), np.ones(10), np.eye(10))
    model = fitted(scale=scale)
    three = SoloProfile(key="c", features=dict.fromkeys("abc", 1.0))
    two = SoloProfile(key="c", features=dict.fromkeys("ab", 1.0))
    assert model.can_predict(three)
    assert not model.can_predict(two)
    assert not model.can_predict(three, two)
    one_column = fitted(scale=Scale(columns[:1], np.zeros(1), np.ones(1), np.eye(1)))
    assert one_column.can_predict(two)
    assert not one_column.can_predict(SoloProfile(key="c"))
    assert fitted().predict(_solo("a", 1, 1), _solo("b", 1, 1), "cpu") is None
    assert fitted().predict(_solo("a", 1, 1), _solo("b", 1, 1), "a100") is not None
    assert fitted(device="cpu").predict(_solo("a", 1, 1), _solo("b", 1, 1), "a100") is None
    assert fitted(device="cpu").predict(_solo("a", 1, 1), _solo("b", 1, 1), "cpu") is not None


def test_a_view_weighs_observations_by_their_inverse_covariance() -> None:
    """Over its own columns only."""
    model = fitted()
    jobs = CounterJobs(("a", "b"), model.jobs.places)
    made = view(LIKENESS, jobs, model.met, [1])
    column = model.jobs.places[[1]]
    blocks = kernel_blocks(LIKENESS, column, column, np.eye(2))
    covariance = blocks.between(model.met.rows, model.met.rows) + np.diag([0.01, 0.03])
    assert made.columns == (1,)
    assert made.inverse == pytest.approx(np.linalg.inv(covariance))
    assert made.weights == pytest.approx(np.linalg.solve(covariance, [0.4, -0.4]))
