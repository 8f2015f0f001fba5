"""Pooling by hand: the mean, its trust in the wider group, and the spread of the next run."""

from math import inf, sqrt

import pytest

from slurm_ext.core.records import Level
from slurm_ext.model.throughput.inversion import LogNormal
from slurm_ext.model.throughput.pooling import NOTHING, SPREAD, pooled

LEVEL = Level.SCRIPT
S2 = SPREAD[LEVEL] ** 2


def test_without_runs_the_wider_group_answers() -> None:
    """Unchanged, also where it knows nothing."""
    farther = LogNormal(1.5, 0.7)
    assert pooled(farther, [], LEVEL) is farther
    assert pooled(NOTHING, [], LEVEL).log_sd == inf


def test_one_run_alone() -> None:
    """Its own value; the spread counts for its mean and again for the next run."""
    answer = pooled(NOTHING, [LogNormal(2.0, 0.1)], LEVEL)
    assert answer.log_mean == 2.0
    assert answer.log_sd == pytest.approx(sqrt(S2 + 0.01 + S2))


def test_two_runs_the_newer_counts_more() -> None:
    """Weights 1 and 0.9, by the formulas of the docstring, worked out here."""
    runs = [LogNormal(1.0, 0.1), LogNormal(2.0, 0.3)]
    mean = (1.0 + 0.9 * 2.0) / 1.9
    doubt = (0.01 + 0.9 * 0.09) / 1.9
    scatter = (1.0 - mean) ** 2 + 0.9 * (2.0 - mean) ** 2
    effective = 1.9**2 / (1 + 0.81)
    spread = (2 * S2 + scatter) / (2 + effective - 1)
    own = (spread + doubt) / effective
    alone = pooled(NOTHING, runs, LEVEL)
    assert alone.log_mean == pytest.approx(mean)
    assert alone.log_sd == pytest.approx(sqrt(own + spread))
    trust = own / (own + 0.5**2)
    shrunk = pooled(LogNormal(0.0, 0.5), runs, LEVEL)
    assert shrunk.log_mean == pytest.approx(mean * (1 - trust))
    assert shrunk.log_sd == pytest.approx(sqrt(own * (1 - trust) + spread))


def test_the_assumed_spread_has_a_bound() -> None:
    """`widest` replaces a larger spread, and never a smaller one."""
    run = [LogNormal(0.0, 0.0)]
    assert pooled(NOTHING, run, LEVEL, 0.01).log_sd == pytest.approx(sqrt(2) * 0.01)
    assert pooled(NOTHING, run, LEVEL, 9.0).log_sd == pytest.approx(sqrt(2 * S2))


def test_a_certain_group_is_believed_over_uncertain_runs() -> None:
    """A wider group without doubt takes all trust; a vague one takes none."""
    runs = [LogNormal(3.0, 0.2)]
    assert pooled(LogNormal(1.0, 0.0), runs, LEVEL).log_mean == 1.0
    assert pooled(LogNormal(1.0, 1e9), runs, LEVEL).log_mean == pytest.approx(3.0)
