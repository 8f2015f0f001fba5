"""The demand model against persistence: it serves where it foretells later weeks better."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from slurm_ext.model.demand.artifact import load
from slurm_ext.model.demand.model import DAY, LEVELS, WEEK, features, highest_ahead
from slurm_ext.training.demand.challenge import FEWEST_SLOTS, challenge

Array = NDArray[np.float64]
pytest.importorskip("lightgbm")


def weekly(slots: int) -> Array:
    """Demand with a rhythm of days, and noise."""
    slot = np.arange(slots)
    noise = np.random.default_rng(0).normal(0, 2, slots)
    rhythm: Array = np.round(60 + 30 * np.sin(2 * np.pi * slot / DAY) + noise)
    return rhythm


def test_a_rhythm_is_learnt_and_its_bounds_hold(tmp_path: Path) -> None:
    """Persistence is beaten by far; later peaks stay within each bound about as often as it says.

    The weeks judged are seen by nobody before.
    """
    need = weekly(5 * WEEK)
    known = 4 * WEEK
    verdict = challenge(need[:known], 0, tmp_path)
    assert verdict.promoted, verdict.why
    assert verdict.why.startswith("learned: ")
    assert verdict.scores is not None
    ours, persistence = (verdict.scores[name]["mae"] for name in ("ours", "persistence"))
    assert ours < persistence / 3
    model = load(tmp_path / "current")
    rows, added = features(need, 0)[known:-36], highest_ahead(need)[known:-36]
    held = [float((added <= model.peak(rows, level)).mean()) for level in LEVELS]
    assert held == pytest.approx(LEVELS, abs=0.08)


def test_where_nothing_can_be_learnt_persistence_serves_and_says_so(tmp_path: Path) -> None:
    """A random walk has no rhythm: the challenger is refused."""
    steps = np.random.default_rng(3).normal(0, 1, 3 * WEEK)
    verdict = challenge(100 + np.cumsum(steps), 0, tmp_path)
    assert not verdict.promoted
    assert verdict.why.startswith("persistence: the learned was")


def test_a_short_series_is_persistence(tmp_path: Path) -> None:
    """Three weeks are needed; less is said in days."""
    verdict = challenge(weekly(FEWEST_SLOTS - 1), 0, tmp_path)
    assert not verdict.promoted
    assert list(tmp_path.iterdir()) == []
    assert "21 needed" in verdict.why
