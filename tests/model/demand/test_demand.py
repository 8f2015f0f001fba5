"""Features of a demand series, and what persistence foretells."""

import numpy as np
import pytest

from slurm_ext.model.arrays import weighted_quantile
from slurm_ext.model.demand.model import (
    FEATURES,
    HORIZONS,
    LEVELS,
    PEAK_SLOTS,
    STANDARD,
    RidgeLine,
    features,
    highest_ahead,
    persistence_of,
)

RANDOM = np.random.default_rng(1)
NEED = RANDOM.integers(0, 50, 1500).astype(np.float64)


def test_no_feature_looks_ahead() -> None:
    """A slot's row is the same whatever comes later, and does not depend on when it is asked."""
    changed = NEED.copy()
    changed[1200:] = 7
    assert np.array_equal(features(NEED, 10)[:1200], features(changed, 10)[:1200])
    assert np.allclose(features(NEED, 10)[:300], features(NEED[:300], 10))


def test_features_are_what_they_are_called() -> None:
    """Lags and means are differences to now; a day has 144 slots."""
    rows = features(NEED, 0)
    column = {name: rows[:, at] for at, name in enumerate(FEATURES)}
    assert rows.shape == (1500, len(FEATURES))
    assert column["lag_18"][1400] == NEED[1382] - NEED[1400]
    assert column["mean_36"][1400] == pytest.approx(NEED[1365:1401].mean() - NEED[1400])
    assert column["day_sin"][144] == pytest.approx(0, abs=1e-9)
    assert column["week_cos"][504] == pytest.approx(-1)


def test_a_series_of_one_slot_has_a_row() -> None:
    """A loop that has just started can ask."""
    assert np.isfinite(features(np.array([3.0]), 99)).all()


def test_persistence_foretells_no_change_and_the_past_rises() -> None:
    """Its bound at a level is what six hours added, at most, in that share of the past."""
    outlook, rows = persistence_of(NEED), features(NEED, 0)
    assert not outlook.change(rows, HORIZONS[0]).any()
    added = highest_ahead(NEED)
    held = [np.nanmean(added <= outlook.peak(rows, level)) for level in LEVELS]
    assert held == pytest.approx(LEVELS, abs=0.03)


def test_the_highest_ahead_is_brute_force() -> None:
    """Six hours after a slot, without the slot itself; unknown where the series ends."""
    told = highest_ahead(NEED)
    assert told[77] == NEED[78 : 78 + PEAK_SLOTS].max() - NEED[77]
    assert np.isnan(told[-PEAK_SLOTS:]).all()
    assert not np.isnan(told[:-PEAK_SLOTS]).any()
    assert persistence_of(NEED[:5]).peaks == {}


def test_every_feature_of_a_slot() -> None:
    """Lags and windows that reach before the beginning, and turns of the clock in UTC."""
    need = np.array([4.0, 7.0, 1.0, 5.0])
    rows = features(need, 100)
    column = dict(zip(FEATURES, rows[3], strict=True))
    assert column["lag_1"] == 1.0 - 5.0
    assert column["lag_3"] == 4.0 - 5.0
    assert column["lag_4"] == 0.0  # the beginning repeats itself
    assert column["mean_3"] == pytest.approx(13 / 3 - 5)
    assert column["mean_6"] == column["mean_1008"] == pytest.approx(17 / 4 - 5)
    assert column["now"] == 5.0
    day, week = 2 * np.pi * 103 / 144, 2 * np.pi * 103 / 1008
    turns = {"day": day, "half_day": 2 * day, "week": week}
    for name, turn in turns.items():
        assert column[f"{name}_sin"] == pytest.approx(np.sin(turn))
        assert column[f"{name}_cos"] == pytest.approx(np.cos(turn))


def test_a_line_cuts_features_far_from_their_mean() -> None:
    """At STANDARD deviations, on both sides."""
    line = RidgeLine(np.array([1.0]), np.array([2.0]), np.array([3.0]), 10.0)
    rows = np.array([[1.0], [3.0], [9.0], [11.0], [-99.0]])
    assert line(rows).tolist() == [10.0, 13.0, 22.0, 22.0, -2.0]
    assert line(np.array([[1.0 + 2 * STANDARD]])).tolist() == [10.0 + 3 * STANDARD]


def test_peaks_are_quantiles_of_the_past() -> None:
    """Of a series that rises by one a slot: always PEAK_SLOTS more."""
    rising = np.arange(PEAK_SLOTS + 2, dtype=float)
    assert persistence_of(rising).peaks == dict.fromkeys(LEVELS, float(PEAK_SLOTS))
    assert persistence_of(rising[: PEAK_SLOTS + 1]).peaks == dict.fromkeys(LEVELS, PEAK_SLOTS)
    assert persistence_of(rising[:PEAK_SLOTS]).peaks == {}
    assert persistence_of(rising[:3]).peak(np.zeros((2, 1)), 0.9).tolist() == [0.0, 0.0]


def test_slots_that_weigh_little_do_not_set_the_bound() -> None:
    """A user who fills the pool again and again has a share of what six hours are said to add."""
    need = np.where(np.arange(3000) % 120 > 110, 90.0, 3.0)
    calm = np.ones(3000)
    calm[[at for at in range(3000) if at % 120 > 70]] = 0.05
    alike, fair = persistence_of(need), persistence_of(need, calm)
    assert alike.peaks[0.8] > 80
    assert fair.peaks[0.8] == 0


def test_quantiles_are_numpys_where_all_weigh_alike() -> None:
    """Of one value it is that one."""
    for level in (0.0, 0.3, 0.9, 1.0):
        expected = np.quantile(NEED, level)
        assert weighted_quantile(NEED, np.full(1500, 3.0), level) == pytest.approx(expected)
    assert weighted_quantile(np.array([5.0]), np.ones(1), 0.5) == 5.0
