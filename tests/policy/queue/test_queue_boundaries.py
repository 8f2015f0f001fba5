"""Queue policies at their boundaries: nice, preemption, expected starts."""

import pytest

from slurm_ext.policy.queue.nice import (
    NiceBounds,
    WaitingJob,
    _gap,
    in_order,
    nices,
    starts_in_s,
)
from slurm_ext.policy.queue.preempting import (
    LEAST_SERVICE,
    RESTART_S,
    ROUNDING,
    SHORTEST_LEFT,
    Preempting,
)


def waiting(*priorities: int, ties: tuple[int, ...] = ()) -> list[WaitingJob]:
    """Jobs a, b, ... without any nice, in the wanted order."""
    return [
        WaitingJob(job="abcdef"[at], priority=priority, nice=0, tie=(ties or range(9))[at])
        for at, priority in enumerate(priorities)
    ]


@pytest.mark.parametrize(
    ("most", "nice"),
    [
        (1000, 14),  # a stands at 10; b goes to 6, which leaves a gap of (10 - 1) // 2
        (14, 14),
        (5, 5),  # its priority is more than `most` above: it stays before a
    ],
)
def test_a_job_gives_way_as_far_as_it_must(most: int, nice: int) -> None:
    """Job b is wanted behind a, and has the higher priority."""
    assert nices(waiting(10, 20), NiceBounds(most=most)) == {"b": nice}


@pytest.mark.parametrize(("priorities", "ordered"), [((5, 5), True), ((5, 6), False)])
def test_of_equals_the_lower_id_goes_first(priorities: tuple[int, int], ordered: bool) -> None:
    """Nothing changes where the order holds already."""
    assert in_order(waiting(*priorities)) is ordered
    assert in_order(waiting(*priorities, ties=(1, 0))) is False
    assert (nices(waiting(*priorities), NiceBounds(most=100)) == {}) is ordered


def test_a_nice_is_left_within_a_tenth_of_the_most() -> None:
    """Job b stands 110 below a where 10 would do: 100 of slack are a tenth of `most`."""
    bounds = NiceBounds(most=1000)

    def stands(priority: int) -> list[WaitingJob]:
        b = WaitingJob(job="b", priority=priority, nice=2000 - priority, tie=1)
        return [WaitingJob(job="a", priority=1500, nice=0, tie=0), b]

    assert nices(stands(1390), bounds) == {}
    assert nices(stands(1389), bounds) == {"b": 2000 - 1490}


def test_a_job_that_gave_way_as_far_as_it_may_stays_there() -> None:
    """A nice of just the most that is allowed is left; one beyond it is made anew."""
    first = WaitingJob(job="1", priority=100, nice=0, tie=1)
    second = WaitingJob(job="2", priority=97, nice=4, tie=2)
    assert nices([first, second], NiceBounds(most=4)) == {}
    assert nices([first, second], NiceBounds(most=3)) == {"2": 2}


@pytest.mark.parametrize(("least", "lifted"), [(-5, 5), (0, 0)])
def test_all_are_lifted_where_priorities_are_too_low(least: int, lifted: int) -> None:
    """Three jobs of priority 1, wanted against their ids: there is no room below."""
    order = waiting(1, 1, 1, ties=(3, 2, 1))
    changes = nices(order, NiceBounds(most=100, least=least))
    assert max([0, *(-nice for nice in changes.values())]) <= lifted
    assert bool(changes) is bool(lifted)


def test_classes_of_service() -> None:
    """At the limit, or within a rounding of it, a job has sunk."""
    rule = Preempting(limits=(10.0, 20.0))
    assert [rule.key(had, 0.0) for had in (9.998, 10 - ROUNDING, 10.0, 19.0, 20.0)] == [
        0.0,
        1.0,
        1.0,
        1.0,
        2.0,
    ]
    assert rule.until_next(4.0) == 6.0
    assert rule.until_next(10.0) == 10.0
    assert rule.until_next(10 - ROUNDING / 2) == pytest.approx(10.0, abs=ROUNDING)
    assert rule.until_next(20.0) == float("inf")
    assert not rule.drifts


def test_what_is_left_decides_without_classes() -> None:
    """The least work first; it changes all the time."""
    assert SHORTEST_LEFT.key(5.0, 7.0) == 7.0
    assert SHORTEST_LEFT.until_next(5.0) == float("inf")
    assert SHORTEST_LEFT.drifts
    assert LEAST_SERVICE.limits == (57600.0,)
    assert RESTART_S == LEAST_SERVICE.restart_s == 30.0


@pytest.mark.parametrize(("units", "expected"), [(2, 0.0), (3, 5.0), (4, 9.0), (8, 9.0), (9, None)])
def test_a_start_is_where_enough_is_free(units: int, expected: float | None) -> None:
    """Of 8 units, 1 is busy for 5 s and 5 for 9 s; what is free already counts at once."""
    assert starts_in_s(8, [(1, 5.0), (5, 9.0)], [], units) == expected


def test_those_ahead_start_first() -> None:
    """One of 8 starts when all are free and runs for 10 s; one of 9 waits for other nodes."""
    assert starts_in_s(8, [(1, 5.0)], [(9, 100.0), (8, 10.0)], 1) == 15.0
    assert starts_in_s(8, [(1, -5.0)], [], 8) == 0.0  # over its limit: it ends now


@pytest.mark.parametrize(
    ("jobs", "lowest", "most", "least", "gap"),
    [
        (1, 11, 1000, 0, 10),
        (1, 10, 1000, 0, 9),
        (2, 11, 1000, 0, 5),
        (2, 11, 1000, -4, 7),
        (2, 11, 6, 0, 3),
        (3, 3, 1000, 0, 1),
        (1, 500, 1000, 0, 10),
    ],
)
def test_the_gap_between_neighbours(
    jobs: int, lowest: int, most: int, least: int, gap: int
) -> None:
    """An even part of the room above 1, and of `most`; from 1 to 10 points."""
    order = waiting(*([lowest + 7] * (jobs - 1)), lowest)
    assert _gap(order, NiceBounds(most=most, least=least)) == gap
    assert _gap([], NiceBounds(most=1000)) == 1
