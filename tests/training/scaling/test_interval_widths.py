"""Widths of intervals by held-out groups: a group is the unit, not a row."""

import numpy as np
import pytest

from slurm_ext.training.scaling.interval_widths import (
    FEWEST,
    NARROWEST,
    WIDEST,
    Misses,
    interval_widths,
    reach,
)


def misses(scales: list[float], *, rows: int = 400, seed: int = 0) -> Misses:
    """Absolute normal misses; each group has a size of its own."""
    dice = np.random.default_rng(seed)
    each = [np.abs(dice.normal(0, scale, rows)) for scale in scales]
    count = rows * len(scales)
    return Misses(
        group=np.repeat(np.arange(float(len(scales))), rows),
        points=np.full(count, 6.0),
        stratum=np.zeros(count),
        missed=np.concatenate(each),
        weight=np.ones(count),
    )


def test_groups_that_miss_alike_have_the_plain_quantile() -> None:
    """Of four models that miss by the same size, nine in ten rows are covered and no more."""
    assert reach(misses([2.0] * 4)) == pytest.approx(2.0 * 1.645, rel=0.05)


def test_groups_that_differ_widen_for_the_next_one() -> None:
    """Nine in ten rows of models never met are covered on average, though models differ."""
    dice = np.random.default_rng(1)
    plain, ours = [], []
    for seed in range(60):
        *known, new = np.exp(dice.normal(0.5, 0.6, 5))
        seen, fresh = misses(list(known), seed=seed), np.abs(dice.normal(0, new, 400))
        plain.append((fresh <= np.quantile(seen.missed, 0.9)).mean())
        ours.append((fresh <= reach(seen)).mean())
    assert np.mean(plain) < 0.88 < np.mean(ours) < 0.94


def test_many_rows_of_one_group_prove_no_more() -> None:
    """Rows of one model alone give their quantile: nobody can be left out."""
    one = misses([2.0])
    assert reach(one) == pytest.approx(reach(misses([2.0], rows=4000)), rel=0.1)


def test_a_stratum_with_few_rows_is_as_wide_as_everything() -> None:
    """Fewer rows than FEWEST beyond the measured GPUs say nothing of their own."""
    mine = misses([2.0] * 3)
    mine.stratum[: FEWEST - 1] = 1.0
    ((_, (inside, beyond)), *_) = interval_widths([mine])
    assert beyond == pytest.approx(inside, rel=0.1)


@pytest.mark.parametrize(("scale", "width"), [(0.0, NARROWEST), (50.0, WIDEST)])
def test_widths_keep_within_bounds(scale: float, width: float) -> None:
    """Perfect and absurd predictions of the past give a width that can be lived with."""
    assert {both for _, both in interval_widths([misses([scale] * 3)])} == {(width, width)}
