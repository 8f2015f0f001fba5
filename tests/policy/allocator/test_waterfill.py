"""Storage that is too slow for all is shared as evenly as the demands allow."""

from math import inf, isclose

from hypothesis import given
from hypothesis import strategies as st

from slurm_ext.policy.allocator.max_min_share import limited, max_min_share
from slurm_ext.policy.allocator.operating_points import OperatingPoint


def test_what_small_readers_leave_goes_to_the_large_ones() -> None:
    """One that needs little leaves the rest to be halved; one of three is not a third of all."""
    assert max_min_share([1.0, 10.0, 10.0], 11.0) == 5.0
    assert max_min_share([10.0, 10.0], 11.0) == 5.5


def test_enough_for_all_limits_nobody() -> None:
    """As nobody reading does."""
    assert max_min_share([1.0, 10.0], 11.0) == inf
    assert max_min_share([], 0.0) == inf
    assert max_min_share([0.0, 0.0], 0.0) == inf


@given(st.lists(st.floats(0, 1e9), min_size=1), st.floats(0, 1e9))
def test_all_of_the_supply_is_used_and_no_more(demands: list[float], supply: float) -> None:
    """Together they get the supply, or all that they ask for where that is less."""
    most = max_min_share(demands, supply)
    given_out = sum(min(demand, most) for demand in demands)
    assert isclose(given_out, min(sum(demands), supply), rel_tol=1e-9, abs_tol=1e-6)


def test_a_reader_that_is_held_back_is_slower_in_proportion() -> None:
    """Half the bandwidth is half the rate; enough changes nothing."""
    point = OperatingPoint(units=2, workers=2, samples_per_s=100.0, io_bytes_per_s=50.0)
    assert limited(point, 25.0) == OperatingPoint(
        units=2, workers=2, samples_per_s=50.0, io_bytes_per_s=25.0
    )
    assert limited(point, 50.0) is point
