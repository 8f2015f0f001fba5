"""When a job would start, if nobody passed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_ext.policy.queue.nice import Units, starts_in_s


@pytest.mark.parametrize(
    ("running", "ahead", "units", "expected"),
    [
        ([], [], 4, 0.0),
        ([(4, 60.0)], [], 1, 60.0),
        ([(2, 60.0), (2, 30.0)], [], 2, 30.0),
        ([(2, 60.0), (2, 30.0)], [], 3, 60.0),
        ([(4, 60.0)], [(4, 100.0)], 1, 160.0),
        ([(4, 60.0)], [(3, 100.0)], 1, 60.0),
        ([(4, -5.0)], [], 1, 0.0),
        ([(4, 60.0)], [(5, 1e9)], 1, 60.0),
        ([], [], 5, None),
    ],
)
def test_it_starts_when_those_before_leave_room(
    running: list[Units], ahead: list[Units], units: int, expected: float | None
) -> None:
    """Of four units; what is too large for ever is passed."""
    assert starts_in_s(4, running, ahead, units) == expected


SOME = st.lists(st.tuples(st.integers(1, 4), st.floats(0, 1e4)), max_size=8)


@given(ahead=SOME, more=st.tuples(st.integers(1, 4), st.floats(0, 1e4)))
def test_one_more_before_it_never_helps(ahead: list[Units], more: Units) -> None:
    """Jobs start in their order, so one more at the end of those before only delays."""
    first, second = starts_in_s(4, [], ahead, 2), starts_in_s(4, [], [*ahead, more], 2)
    assert first is not None
    assert second is not None
    assert first <= second
