"""A demand series replayed under the energy policy."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contrib.bench.energy.baselines import outline
from slurm_ext.policy.energy import EnergyRules
from slurm_ext.simulate.energy.replay import DemandSeries, replay_energy

RULES = EnergyRules(buffer=0.1, spare=0.1, least=0.1, settle_s=1200, hold_s=1200, min_off_s=0)


def series(need: list[int], total: int = 10, peak: float = 0.0) -> DemandSeries:
    """Of a cluster that keeps its size."""
    needs = np.array(need, dtype=np.int64)
    return DemandSeries(needs, np.full(len(needs), total), np.full(len(needs), peak))


def test_a_night_is_slept_through_and_the_morning_wakes_once() -> None:
    """Nodes sleep when demand falls; the rise wakes them in one go, and only its slot is short."""
    told = replay_energy(series([8] * 6 + [2] * 12 + [8] * 6), RULES)
    assert (told.wakes, told.woken, told.short) == (1, 6, 5)
    assert told.utilisation > 70 > 60 > told.utilisation_before


def test_a_bound_that_sees_the_morning_keeps_nodes_awake() -> None:
    """Foretold demand is not slept away: nothing is short, nothing is woken."""
    told = replay_energy(series([8] * 6 + [2] * 12 + [8] * 6, peak=8.0), RULES)
    assert (told.wakes, told.short) == (0, 0)


@settings(max_examples=60)
@given(st.lists(st.integers(0, 12), min_size=1, max_size=60), st.floats(0, 14))
def test_numbers_and_named_nodes_agree_where_nodes_may_sleep_briefly(
    need: list[int], peak: float
) -> None:
    """Both replays, one by nodes and one by their number, come to the same; power is conserved."""
    one = series([min(n, 10) for n in need], peak=peak)
    named, counted = replay_energy(one, RULES), outline(one, RULES)
    assert (named.wakes, named.woken, named.short) == (
        counted.wakes,
        counted.woken,
        counted.short,
    )
    assert named.powered == counted.powered <= named.total
    assert named.powered >= named.needed - named.short


def test_nodes_that_leave_and_come_back_are_counted_as_the_trace_has_them() -> None:
    """An outage is no saving."""
    needs = np.array([5, 5, 0, 0, 5, 5])
    told = replay_energy(
        DemandSeries(needs, np.array([10, 10, 0, 0, 10, 10]), np.full(6, 10.0)), RULES
    )
    assert (told.total, told.powered, told.short) == (40, 40, 0)
    assert told.utilisation == pytest.approx(50.0)
