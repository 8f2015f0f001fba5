"""The demand model against persistence: it serves where it foretells later weeks better."""

import numpy as np
import pytest
from numpy.typing import NDArray

from slurm_ext.model.demand.model import DAY, LEVELS, WEEK, features, highest_ahead
from slurm_ext.training.demand.fit import FEWEST_SLOTS, challenge

Array = NDArray[np.float64]
pytest.importorskip("lightgbm")


def weekly(slots: int) -> Array:
    """Demand with a rhythm of days, and noise."""
    slot = np.arange(slots)
    noise = np.random.default_rng(0).normal(0, 2, slots)
    rhythm: Array = np.round(60 + 30 * np.sin(2 * np.pi * slot / DAY) + noise)
    return rhythm


def test_a_rhythm_is_learnt_and_its_bounds_hold() -> None:
    """Persistence is beaten by far; later peaks stay within each bound about as often as it says.

    The weeks judged are seen by nobody before.
    """
    need = weekly(5 * WEEK)
    known = 4 * WEEK
    verdict = challenge(need[:known], 0)
    assert verdict.serves.name == "learned", verdict.reason
    assert verdict.learned_mae is not None
    assert verdict.persistence_mae is not None
    assert verdict.learned_mae < verdict.persistence_mae / 3
    rows, added = features(need, 0)[known:-36], highest_ahead(need)[known:-36]
    held = [float((added <= verdict.serves.peak(rows, level)).mean()) for level in LEVELS]
    assert held == pytest.approx(LEVELS, abs=0.08)


def test_where_nothing_can_be_learnt_persistence_serves_and_says_so() -> None:
    """A random walk has no rhythm: the challenger is refused."""
    steps = np.random.default_rng(3).normal(0, 1, 3 * WEEK)
    verdict = challenge(100 + np.cumsum(steps), 0)
    assert verdict.serves.name == "persistence"
    assert verdict.reason.startswith("persistence: the learned was")


def test_a_short_series_is_persistence() -> None:
    """Three weeks are needed; less is said in days."""
    verdict = challenge(weekly(FEWEST_SLOTS - 1), 0)
    assert verdict.serves.name == "persistence"
    assert "21 needed" in verdict.reason
