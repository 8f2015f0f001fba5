"""Rounds and monitor of sharing: each threshold on it and beside it, and whose value counts."""

from collections.abc import Mapping, Sequence
from math import inf, nan
from typing import Any

from slurm_ext.policy.colocation.choose_pairs import why_not
from slurm_ext.policy.colocation.co_scheduling import place_waiting, rooms
from slurm_ext.policy.colocation.colocation_monitor import (
    KEEP_MOST_S,
    KEEP_S,
    CoLocation,
    CoLocationState,
    PairCooldown,
    Window,
    cooldowns_as_json,
    cooldowns_from_json,
    update,
)
from slurm_ext.policy.colocation.placement_round import NodeSlot, PlacementAction
from slurm_ext.policy.colocation.terms import Candidate
from tests.policy.colocation.test_pair_choice import Table
from tests.policy.colocation.test_sharing_terms import RULES, job


def placed(
    waiting: Sequence[Candidate],
    running: Sequence[Candidate],
    nodes: Mapping[str, int],
    table: Table,
    **more: Any,
) -> dict[str, PlacementAction]:
    """The action for each waiting job."""
    slots = [NodeSlot(name=name, free_cpus=free) for name, free in nodes.items()]
    actions = place_waiting(waiting, running, slots, table, rules=RULES, **more)
    return {action.job: action for action in actions}


BAD = Table({"dd": 0.4})


def test_room_is_what_jobs_leave() -> None:
    """Jobs of other nodes do not count; a node that is over full has no room."""
    slots = {slot.name: slot.free_cpus for slot in rooms({"n1": 4, "n2": 2}, [("n1", 3), ("x", 9)])}
    assert slots == {"n1": 1, "n2": 2}


def test_a_job_starts_where_its_cpus_just_fit() -> None:
    """One more does not fit, and the reason says so."""
    fits = placed([job("d1", cpus=2), job("e", cpus=1)], [], {"n1": 2}, BAD)
    assert (fits["d1"].start, fits["d1"].place) == (True, "n1") or fits["d1"].free
    two = placed([job("d1", cpus=2), job("d2", cpus=2, rank=1.0)], [], {"n1": 2}, BAD)
    assert (two["d1"].place, two["d1"].reason) == ("n1", "a node to itself")
    assert (two["d2"].start, two["d2"].room, two["d2"].free) == (False, False, False)
    assert two["d2"].reason == "no node has room"
    wide = placed([job("d1", cpus=2), job("d2", cpus=2, rank=1.0)], [], {"n1": 3}, BAD)
    assert wide["d2"].reason == "no node has room"
    room = placed([job("d1", cpus=2), job("d2", cpus=1, rank=1.0)], [], {"n1": 3}, BAD)
    assert (room["d2"].start, room["d2"].room) == (False, True)
    assert "its floor is 85%" in room["d2"].reason


def test_an_overdue_job_is_left_to_slurm() -> None:
    """Whatever is beside it."""
    running = [job("d0", place="n1")]
    waits = placed([job("d1")], running, {"n1": 1}, BAD)
    assert not waits["d1"].free
    free = placed([job("d1")], running, {"n1": 1}, BAD, overdue=frozenset({"d1"}))
    assert (free["d1"].free, free["d1"].start, free["d1"].place) == (True, True, None)
    assert free["d1"].reason == "has waited long enough"


def test_a_job_that_was_bound_starts_where_it_was_bound() -> None:
    """While it has room there, and nobody there would be hurt."""
    running = [job("d0", place="n1"), job("e", place="n2")]
    table = Table({"dd": 0.4, "df": 0.9})
    bound = {"f": "n2", "d1": "n1"}
    actions = placed([job("d1"), job("f")], running, {"n1": 1, "n2": 1}, table, bound=bound)
    assert (actions["f"].place, actions["f"].reason) == ("n2", "its turn has come")
    assert actions["d1"].place == "n2" or not actions["d1"].start
    full = placed([job("f", cpus=2)], running, {"n1": 0, "n2": 1}, BAD, bound={"f": "n2"})
    assert full["f"].reason != "its turn has come"


def test_the_next_job_is_released_for_the_node_that_is_free_first() -> None:
    """Only where it may run beside all that may still be there."""
    running = [
        job("e1", place="n1", remaining_s=10.0),
        job("d0", place="n2", remaining_s=90.0),
        job("d9", place="n2", remaining_s=95.0),
    ]
    table = Table({"dd": 0.4})
    actions = placed([job("d1"), job("d2", rank=1.0)], running, {"n1": 0, "n2": 0}, table)
    assert (actions["d1"].place, actions["d1"].free, actions["d1"].start) == ("n1", True, False)
    assert actions["d1"].reason.startswith("next there: ")
    assert not actions["d2"].free
    coming = placed([job("d1")], running, {"n1": 0, "n2": 0}, table, coming=frozenset({"e1"}))
    assert not coming["d1"].free


def test_nothing_keeps_a_job_from_an_empty_node() -> None:
    """Beside others the first reason counts."""
    assert why_not(job("d1"), [], BAD, RULES) is None
    assert "its floor" in (why_not(job("d1"), [job("d2", place="n1")], BAD, RULES) or "")


FRESH = CoLocation(job="a", floor=0.8, requested_mem_bytes=100.0, patience_s=30.0)


def after(*windows: tuple[float, float | None]) -> CoLocation:
    """The job after windows of (seconds, speed)."""
    colocation = FRESH
    for seconds, measured in windows:
        colocation = update(colocation, Window(seconds=seconds, speed=measured))
    return colocation


def test_below_means_below() -> None:
    """At the floor nothing adds up; within the margin nothing is taken away; above it is."""
    assert after((10, 0.8)).below_s == 0
    assert after((10, 0.799)).below_s == 10
    assert after((10, 0.7), (5, 0.829)).below_s == 10
    assert after((10, 0.7), (5, 0.831)).below_s == 5
    assert (after((10, 0.7), (10, 0.9)).below_s, after((10, 0.7), (10, 0.9)).windows_below) == (
        0,
        0,
    )
    assert (after((10, 0.7), (4, 0.9)).windows_below, after((10, 0.7), (40, 0.9)).below_s) == (1, 0)


def test_patience_and_three_windows() -> None:
    """Both on the bound; speed 0 is a speed, a negative one is none."""
    assert after((10, 0.5), (10, 0.5), (10, 0.5)).state is CoLocationState.BELOW
    assert after((10, 0.5), (10, 0.5), (9.9, 0.5)).state is CoLocationState.FINE
    assert after((100, 0.5), (100, 0.5)).state is CoLocationState.FINE
    assert after((10, 0.0)).below_s == 10
    assert after((10, -0.1), (10, None), (10, nan), (0, 0.5), (-1, 0.5), (inf, 0.5)) == FRESH


def test_memory_beyond_what_was_requested() -> None:
    """Ten percent more are forgiven; unmeasured memory changes nothing."""
    for mem_bytes, state in (
        (110.0, CoLocationState.FINE),
        (110.1, CoLocationState.MEMORY_EXCEEDED),
    ):
        held = update(FRESH, Window(seconds=1, mem_bytes=mem_bytes))
        assert held.state is state or mem_bytes == 110.0
        assert update(held, Window(seconds=1, mem_bytes=1.0)).most_mem_bytes == mem_bytes
    assert update(FRESH, Window(seconds=1, mem_bytes=inf)).most_mem_bytes == 0.0


def test_cooldowns_double_up_to_a_quarter_of_a_year() -> None:
    """Each ends on the second; JSON keeps them."""
    for times, days in ((1, 7), (2, 14), (3, 28), (4, 56), (5, 90), (9, 90)):
        cooldown = PairCooldown(last_s=1000.0, times=times)
        assert cooldown.holds(1000.0 + days * 86400 - 1)
        assert not cooldown.holds(1000.0 + days * 86400)
    assert (KEEP_S, KEEP_MOST_S) == (7 * 86400, 90 * 86400)
    kept = {frozenset("ab"): PairCooldown(5.0, 2), frozenset("c"): PairCooldown(1.0)}
    rows = cooldowns_as_json(kept)
    assert rows == [[["a", "b"], 5.0, 2], [["c"], 1.0, 1]]
    assert cooldowns_from_json(rows) == kept
