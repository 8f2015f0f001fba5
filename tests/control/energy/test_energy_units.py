"""Units of the energy loop at their bounds: nodes, demand, wakes and the recorded series."""

from pathlib import Path
from typing import Any

import pytest

from slurm_ext.control.energy.energy_state import EnergyState
from slurm_ext.control.energy.nodes import (
    AHEAD_S,
    DUE_S,
    NodeTimes,
    failed,
    is_busy,
    need,
    neediest_user,
    nodes_of,
    pool_of,
    power_of,
)
from slurm_ext.control.energy.series import KEPT_SLOTS, DemandRecorder, open_slot
from slurm_ext.model.demand.model import SLOT_S
from slurm_ext.model.demand.series import NOBODY
from slurm_ext.policy.energy import DAY_S, PowerState
from slurm_ext.slurm import JobInfo, NodeInfo, ReservationInfo

NOW_S = 1_000_000.0


def node(state: str, name: str = "n1", *partitions: str) -> NodeInfo:
    """A node in this state."""
    return NodeInfo(name=name, cpus=4, mem_mib=1, state=state, partitions=partitions or ("main",))


@pytest.mark.parametrize(
    ("state", "power"),
    [
        ("IDLE", PowerState.ON),
        ("ALLOCATED", PowerState.ON),
        ("IDLE+POWERED_DOWN", PowerState.ASLEEP),
        ("IDLE+POWERING_DOWN", PowerState.FALLING),
        ("IDLE+POWER_DOWN", PowerState.FALLING),
        ("ALLOCATED+POWER_DOWN", PowerState.ON),
        ("ALLOCATED+POWERING_DOWN", PowerState.FALLING),
        ("IDLE+POWERING_UP", PowerState.WAKING),
        ("IDLE+POWERED_DOWN+POWER_UP", PowerState.WAKING),
        ("IDLE+DRAIN", PowerState.AWAY),
        ("DOWN+POWERED_DOWN", PowerState.AWAY),
        ("DOWN+POWERING_UP", PowerState.AWAY),
        ("IDLE+NOT_RESPONDING", PowerState.AWAY),
        ("IDLE+NOT_RESPONDING+POWERED_DOWN", PowerState.ASLEEP),
    ],
)
def test_power_of_a_node(state: str, power: PowerState) -> None:
    """As Slurm's flags say; a busy one that is to sleep is on."""
    assert power_of(node(state)) is power


def test_busy_nodes() -> None:
    """With jobs, ending ones, or one that is planned."""
    for state, busy in (
        ("IDLE", False),
        ("IDLE+POWERED_DOWN", False),
        ("MIXED", True),
        ("IDLE+COMPLETING", True),
        ("IDLE+PLANNED", True),
    ):
        assert is_busy(node(state)) is busy
    assert failed([node("DOWN+POWERED_DOWN"), node("DOWN", "n2"), node("IDLE", "n3")]) == ("n1",)
    both = [node("IDLE", "n1", "a"), node("IDLE", "n2", "b")]
    assert [one.name for one in pool_of(both, "a")] == ["n1"]
    assert len(pool_of(both, "*")) == 2


def reservation(start_s: float, end_s: float = NOW_S + 9e9, name: str = "r") -> ReservationInfo:
    """One of node n1."""
    fields: dict[str, Any] = {"name": name, "nodes": ("n1",), "start_s": start_s, "end_s": end_s}
    return ReservationInfo(**fields)


@pytest.mark.parametrize(
    ("start_s", "kept", "due"),
    [
        (NOW_S - 10, True, True),
        (NOW_S + DUE_S, True, True),
        (NOW_S + DUE_S + 1, True, False),
        (NOW_S + AHEAD_S, True, False),
        (NOW_S + AHEAD_S + 1, False, False),
    ],
)
def test_reservations_keep_nodes_awake_and_wake_them(start_s: float, kept: bool, due: bool) -> None:
    """Three hours ahead, and half an hour ahead, on the second."""
    times = NodeTimes({}, {})
    (one,) = nodes_of([node("IDLE")], [reservation(start_s)], times, NOW_S)
    assert (bool(one.kept), bool(one.due)) == (kept, due)
    (over,) = nodes_of([node("IDLE")], [reservation(NOW_S - 9, NOW_S)], times, NOW_S)
    assert (over.kept, over.due) == ("", "")


def test_nodes_as_the_policy_sees_them() -> None:
    """Since when each sleeps or idles; why it is kept awake."""
    times = NodeTimes({"n1": 5.0}, {"n1": 7.0, "n2": 9.0})
    seen = nodes_of(
        [node("IDLE+POWERED_DOWN"), node("IDLE", "n2"), node("IDLE+RESERVED", "n3")],
        [],
        times,
        NOW_S,
        {"n2": "excluded by the settings"},
    )
    assert [one.since_s for one in seen] == [5.0, 9.0, NOW_S]
    assert [one.kept for one in seen] == ["", "excluded by the settings", "reserved"]


def test_nodes_that_are_needed() -> None:
    """Busy ones and those that jobs wait for, at most as many as there are."""
    nodes = nodes_of(
        [node("MIXED"), node("IDLE", "n2"), node("IDLE", "n3"), node("DOWN", "n4")],
        [],
        NodeTimes({}, {}),
        NOW_S,
    )

    def waits(**changes: Any) -> JobInfo:
        fields: dict[str, Any] = {"job_id": 1, "state": "PENDING", "partition": "main,x"}
        return JobInfo(**{**fields, "reason": "Resources", **changes})

    assert need(nodes, [], "main") == 1
    assert need(nodes, [waits()], "main") == 2
    assert need(nodes, [waits(node_count=2)], "main") == 3
    assert need(nodes, [waits(node_count=9)], "main") == 3
    assert need(nodes, [waits(reason="Priority")], "x") == 2
    for other in ({"reason": "Dependency"}, {"state": "RUNNING"}, {"partition": "y"}):
        assert need(nodes, [waits(**other)], "main") == 1
    assert need(nodes, [waits(partition="y")], "*") == 2


def test_a_slot_is_of_the_user_whose_jobs_want_the_most() -> None:
    """By nodes that they have and lack; who only waits for a limit or a job wants none now."""

    def job(user: int, nodes: int, **changes: Any) -> JobInfo:
        fields: dict[str, Any] = {"job_id": 1, "state": "RUNNING", "partition": "main"}
        return JobInfo(**{**fields, "user_id": user, "node_count": nodes, **changes})

    waits = {"state": "PENDING", "reason": "Priority"}
    jobs = [job(7, 2), job(8, 1), job(8, 2, **waits), job(9, 9, state="PENDING", reason="QOSMax")]
    assert neediest_user(jobs, "main") == 8
    assert neediest_user([*jobs, job(9, 9, partition="x")], "main") == 8
    assert neediest_user([*jobs, job(9, 9, partition="x")], "*") == 9
    assert neediest_user([job(7, 2, state="COMPLETED")], "main") == NOBODY
    assert neediest_user([], "*") == NOBODY


def test_an_open_slot_of_before_has_no_user() -> None:
    """The state folder of an earlier release is read."""
    assert open_slot([5, 2, 3]) == (5, 2, 3, NOBODY)
    assert open_slot([5, 2, 3, 1000]) == (5, 2, 3, 1000)


def test_since_when_nodes_sleep_and_idle() -> None:
    """A node that wakes is not ours any more; the first time counts."""
    state = EnergyState(ours={"n1", "n2"})
    state.notice([node("IDLE+POWERED_DOWN"), node("IDLE", "n2"), node("MIXED", "n3")], 10.0)
    assert (state.asleep, state.idle) == ({"n1": 10.0}, {"n2": 10.0})
    state.notice([node("IDLE+POWERED_DOWN"), node("IDLE+POWERING_UP", "n2")], 20.0)
    assert (state.asleep, state.idle, state.ours) == ({"n1": 10.0}, {"n2": 10.0}, {"n1"})
    state.notice([node("MIXED")], 30.0)
    assert (state.asleep, state.idle) == ({}, {})


def test_a_lack_of_nodes_is_one_wake() -> None:
    """Another where it grows; one that lasts is not before; a day later none counts."""
    state = EnergyState()
    state.note_wake("p", 3, 10.0, wakes=True)
    state.note_wake("p", 3, 20.0, wakes=True)
    assert state.wakes == {"p": [10.0]}
    assert state.wakes_before("p", 3, 2, 30.0) == ()
    assert state.wakes_before("p", 3, 3, 30.0) == (10.0,)
    assert state.wakes_before("p", 4, 2, 30.0) == (10.0,)
    state.note_wake("p", 4, 30.0, wakes=True)
    assert state.wakes == {"p": [10.0, 30.0]}
    state.note_wake("p", 0, 40.0, wakes=False)
    assert state.lacking == {}
    assert state.wakes_before("p", 3, 2, 10.0 + DAY_S) == (30.0,)
    assert state.wakes_before("q", 3, 2, 30.0) == ()
    state.note_wake("p", 1, 10.0 + DAY_S, wakes=True)
    assert state.wakes == {"p": [30.0, 10.0 + DAY_S]}


def test_the_state_is_read_as_it_was_kept() -> None:
    """With the slot that has not ended."""
    state = EnergyState({"a": 1.0}, {"b": 2.0}, {"a"}, {"p": [3.0]}, {"p": 4})
    body = state.as_json({"p": (1, 2, 3, 1000)})
    assert EnergyState.from_json(body) == state
    assert body["running"] == {"p": (1, 2, 3, 1000)}
    assert EnergyState.from_json({}) == EnergyState()


def test_a_slot_is_recorded_with_its_peak(tmp_path: Path) -> None:
    """When it has ended; old slots are forgotten; a dry run records nothing."""
    series = DemandRecorder(tmp_path, "p", None, writes=True)
    series.see(SLOT_S * 10, 3, 9, 1001)
    series.see(SLOT_S * 11 - 1, 5, 8, 1000)
    series.see(SLOT_S * 11 - 1, 4, 8, 1001)
    assert series.running == (10, 5, 9, 1000)
    series.see(SLOT_S * 11, 1, 9)
    (path,) = tmp_path.iterdir()
    assert path.read_text() == f"{SLOT_S * 10},5,9,1000\n"
    known = series.series()
    assert (known.first, known.need.tolist()) == (10, [5.0, 1.0])
    assert known.users == [1000, NOBODY]
    series.see(SLOT_S * (10 + KEPT_SLOTS), 2, 9)
    assert set(series._ended) == {11}
    DemandRecorder(tmp_path / "dry", "p", (1, 2, 3, NOBODY), writes=False).see(SLOT_S * 5, 1, 1)
    assert not (tmp_path / "dry").exists()
