"""The cheapest and the fastest nodes: against every other shape, within the limits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_ext.core.records import Interval
from slurm_ext.policy.node_shapes import NodeType, RatedShape, TrainingGoal, choose_nodes, priced

HOUR = 3600.0


def shape(name: str, rate: float, price: float, *, nodes: int = 1, sure: float = 1.0) -> RatedShape:
    """One shape whose interval is a factor of `sure` to each side."""
    node = NodeType(name=name, gpu="a100", gpus=4, cores=32, price_per_hour=price)
    return RatedShape(
        node=node,
        nodes=nodes,
        batch=32,
        samples_per_s=rate,
        interval=Interval(rate / sure, rate * sure),
        limit="accelerator",
    )


SLOW, QUICK = shape("slow", 100, 1.0), shape("quick", 300, 6.0)
WORK = 100 * 10 * HOUR  # ten hours on SLOW


def test_time_and_cost_follow_from_rate_and_price() -> None:
    """Start-up is paid for, too; bounds go the other way round than those of the rate."""
    goal = TrainingGoal(samples=WORK, startup_s=HOUR)
    (one,) = priced([shape("s", 100, 2.0, nodes=3, sure=2.0)], goal)
    assert one.time_s == pytest.approx(11 * HOUR)
    assert (one.time.low, one.time.high) == pytest.approx((6 * HOUR, 21 * HOUR))
    assert (one.cost, one.cost_bounds.high) == pytest.approx((66.0, 126.0))
    assert not one.certain


def test_without_limits_the_cheapest_and_the_fastest_of_all() -> None:
    """Slow costs 10, quick 20 and is done in a third of the time."""
    choice = choose_nodes([SLOW, QUICK], TrainingGoal(samples=WORK))
    assert choice.cheapest is not None
    assert choice.fastest is not None
    assert (choice.cheapest.shape, choice.fastest.shape) == (SLOW, QUICK)
    assert [one.shape for one in choice.front] == [QUICK, SLOW]


def test_a_deadline_is_met_by_the_slow_end() -> None:
    """A shape that meets it in the middle only is not taken; none that is sure is an answer."""
    risky = shape("risky", 200, 1.0, sure=1.5)
    goal = TrainingGoal(samples=WORK, deadline_s=5 * HOUR)
    choice = choose_nodes([risky, QUICK], goal)
    assert choice.cheapest is not None
    assert choice.cheapest.shape is QUICK
    unsure = choose_nodes([risky, SLOW], goal)
    assert unsure.cheapest is None
    assert unsure.likeliest is not None
    assert unsure.likeliest.shape is risky
    assert unsure.likeliest.chance(5 * HOUR) == pytest.approx(0.5)
    assert choose_nodes([risky], TrainingGoal(samples=WORK)).likeliest is None


def test_the_cheapest_is_so_on_average() -> None:
    """Ten for sure is less than 9.5 that may as well be a third of it or three times as much."""
    wide = shape("wide", 105, 1.0, sure=3.0)
    choice = choose_nodes([wide, SLOW], TrainingGoal(samples=WORK))
    assert choice.cheapest is not None
    assert choice.cheapest.shape is SLOW
    assert wide.samples_per_s > SLOW.samples_per_s


def test_a_budget_is_kept_by_the_dear_end() -> None:
    """Of what is surely paid for, the fastest."""
    choice = choose_nodes([SLOW, QUICK], TrainingGoal(samples=WORK, budget=15))
    assert choice.fastest is not None
    assert choice.fastest.shape is SLOW
    assert choose_nodes([QUICK], TrainingGoal(samples=WORK, budget=15)).fastest is None


def test_of_nothing_nothing_is_chosen() -> None:
    """A table of which no type has a rate."""
    choice = choose_nodes([], TrainingGoal(samples=WORK))
    assert (choice.cheapest, choice.fastest, choice.every) == (None, None, ())


@given(
    st.lists(
        st.tuples(st.floats(1, 1e4), st.floats(0.01, 100), st.integers(1, 64)),
        min_size=1,
        max_size=12,
    )
)
def test_the_front_is_what_nothing_beats(drawn: list[tuple[float, float, int]]) -> None:
    """A shape is on it exactly if no other one is at least as good in both and better in one."""
    shapes = [shape(str(n), rate, price, nodes=n) for rate, price, n in drawn]
    every = priced(shapes, TrainingGoal(samples=WORK))
    for one in every:
        beaten = any(
            other.time_s <= one.time_s
            and other.cost <= one.cost
            and (other.time_s, other.cost) != (one.time_s, one.cost)
            for other in every
        )
        twin = any(
            other.front and (other.time_s, other.cost) == (one.time_s, one.cost)
            for other in every
            if other is not one
        )
        assert one.front == (not beaten and not (twin and not one.front))
