"""A node's units in proportion to what Slurm gave."""

from hypothesis import given
from hypothesis import strategies as st

from slurm_ext.policy.allocator.max_min_share import latency_weight, proportional

GIVEN = st.dictionaries(st.text("abc", min_size=1), st.integers(1, 64), min_size=1)


def test_what_is_left_over_goes_round() -> None:
    """Equal jobs get equal parts, larger ones larger parts, odd units by remainder, then name."""
    assert proportional({"a": 2, "b": 2}, 8) == {"a": 4, "b": 4}
    assert proportional({"a": 1, "b": 3}, 8) == {"a": 2, "b": 6}
    assert proportional({"b": 3, "a": 3, "c": 3}, 11) == {"a": 4, "b": 4, "c": 3}


def test_a_full_node_has_nothing_to_add() -> None:
    """Nor one of which more was given than it has: that is for others to say."""
    assert proportional({"a": 4, "b": 4}, 8) == {"a": 4, "b": 4}
    assert proportional({"a": 4, "b": 4}, 6) == {"a": 4, "b": 4}
    assert proportional({}, 6) == {}


@given(GIVEN, st.integers(0, 200))
def test_all_units_are_shared_and_nobody_loses(jobs: dict[str, int], more: int) -> None:
    """The parts fill the node, each is at least what Slurm gave, and at most one unit uneven."""
    units = sum(jobs.values()) + more
    shares = proportional(jobs, units)
    assert sum(shares.values()) == units
    for job, count in jobs.items():
        assert shares[job] >= count
        assert abs(shares[job] - count * units / sum(jobs.values())) < 1


def test_who_uses_less_than_his_own_goes_ahead_the_farther_the_less() -> None:
    """Never who would use others' too; never without end; a job that uses nothing is no fault."""
    assert latency_weight(1.0) == latency_weight(0.9) == 1.0
    assert latency_weight(0.8) == 10.0
    assert latency_weight(0.5) == 16.0
    assert latency_weight(0.01) == latency_weight(0.0) == 64.0
