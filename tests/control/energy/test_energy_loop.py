"""The energy loop over a cluster of records: what it sees, decides, asks of Slurm and remembers."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slurm_ext.control.energy.energy_loop import KIND, EnergyLoop, rules_of
from slurm_ext.control.energy.nodes import NodeTimes, need, nodes_of, power_of
from slurm_ext.control.loops.loop_state import cluster_state
from slurm_ext.control.loops.planned_loop import PlannedAction, PlannedLoop
from slurm_ext.core.settings.document import Settings, parse
from slurm_ext.policy.energy import EnergyNode, NodeDemand, PowerState, decide
from slurm_ext.simulate.energy.replay import DemandSeries, needs_at
from slurm_ext.slurm import JobInfo, MemoryClient, NodeInfo, ReservationInfo, SlurmClient
from slurm_ext.slurm import PowerCommand as Order

NOW_S = 1_700_000_000.0
SAVING = {"SuspendProgram": "/s", "ResumeProgram": "/r", "SuspendTime": "31536000 sec"}


def settings_of(tmp_path: Path, mode: str = "act", **more: Any) -> Settings:
    """Every node may sleep at once; nothing has to be known before."""
    values = {
        "paths.state_dir": str(tmp_path),
        "energy.mode": mode,
        "energy.partitions": ["*"],
        "energy.buffer": 0.1,
        "energy.spare": 0.2,
        "energy.least": 0.1,
        "energy.min_idle_s": 0.0,
        "energy.min_off_s": 0.0,
        "energy.history_h": 0.0,
        **{key.replace("__", "."): value for key, value in more.items()},
    }
    lines = [
        f"{key} = {str(v).lower() if isinstance(v, bool) else repr(v)}" for key, v in values.items()
    ]
    return parse("\n".join(lines), "test")


def cluster(*states: str, partitions: tuple[str, ...] = ("main",)) -> tuple[NodeInfo, ...]:
    """Nodes n0, n1, ... in these states."""
    return tuple(
        NodeInfo(name=f"n{at}", cpus=4, mem_mib=1000, state=state, partitions=partitions)
        for at, state in enumerate(states)
    )


def loop_of(client: SlurmClient, settings: Settings, *, writes: bool = True) -> EnergyLoop:
    """The loop, as the command makes it."""
    place = cluster_state(settings.state_dir, "energy", writes=writes)
    place.path.mkdir(parents=True, exist_ok=True)
    return EnergyLoop(settings, client, place)


def done(planned: Any) -> list[tuple[str, str]]:
    """Nodes and what becomes of them."""
    return [(one.subject, one.done) for one in planned]


def test_idle_nodes_beyond_the_buffer_are_told_to_power_down(tmp_path: Path) -> None:
    """Ten nodes, two busy: one buffer stays, seven sleep, by Slurm's word and with the reason."""
    client = MemoryClient(
        known_nodes=cluster("MIXED", "ALLOCATED", *["IDLE"] * 8), known_config=SAVING, obeys=True
    )
    loop = loop_of(client, settings_of(tmp_path))
    planned = loop.plan(NOW_S)
    assert done(planned) == [(f"n{at}", "POWER_DOWN") for at in range(2, 9)]
    assert "2 nodes needed now, at most 3" in planned[0].why
    assert "persistence" in planned[0].why
    assert [loop.apply(one) for one in planned] == ["done"] * 7
    assert client.asked[0] == ("power", ("n2",), Order.DOWN)
    assert loop.plan(NOW_S + 1) == []  # they are falling asleep: nothing is left to do


@pytest.mark.parametrize(
    ("state", "power"),
    [
        ("IDLE", PowerState.ON),
        ("MIXED+PLANNED", PowerState.ON),
        ("IDLE+POWER_DOWN", PowerState.FALLING),
        ("MIXED+POWER_DOWN", PowerState.ON),
        ("MIXED+POWERING_DOWN", PowerState.FALLING),
        ("IDLE+POWERED_DOWN", PowerState.ASLEEP),
        ("IDLE+POWERED_DOWN+NOT_RESPONDING", PowerState.ASLEEP),
        ("MIXED+NOT_RESPONDING+POWERING_UP", PowerState.WAKING),
        ("DOWN+POWERED_DOWN+NOT_RESPONDING", PowerState.AWAY),
        ("IDLE+DRAIN", PowerState.AWAY),
        ("IDLE+DRAIN+POWERED_DOWN", PowerState.AWAY),
        ("IDLE+NOT_RESPONDING", PowerState.AWAY),
        ("IDLE+MAINTENANCE", PowerState.AWAY),
    ],
)
def test_states_are_read_as_slurm_means_them(state: str, power: PowerState) -> None:
    """Strings seen on 22.05; whoever an administrator drained is left alone."""
    assert power_of(cluster(state)[0]) is power


def test_reserved_excluded_and_planned_nodes_stay_awake(tmp_path: Path) -> None:
    """Of five idle nodes the reserved (now or within six hours), planned and excluded stay."""
    client = MemoryClient(
        known_nodes=cluster("IDLE", "IDLE", "IDLE", "IDLE+PLANNED", "IDLE", "IDLE"),
        known_reservations=(
            ReservationInfo(name="now", nodes=("n0",), start_s=NOW_S - 5, end_s=NOW_S + 5),
            ReservationInfo(name="soon", nodes=("n1",), start_s=NOW_S + 7200, end_s=NOW_S + 9e4),
            ReservationInfo(name="late", nodes=("n4",), start_s=NOW_S + 9e4, end_s=NOW_S + 1e5),
            ReservationInfo(name="over", nodes=("n5",), start_s=NOW_S - 9, end_s=NOW_S - 1),
        ),
        known_config=SAVING,
    )
    settings = settings_of(tmp_path, energy__exclude=["n2"], energy__buffer=0.0)
    assert done(loop_of(client, settings).plan(NOW_S)) == [
        ("n4", "POWER_DOWN"),
        ("n5", "POWER_DOWN"),
    ]


def test_a_sleeper_is_woken_before_its_reservation_begins(tmp_path: Path) -> None:
    """Half an hour before."""
    one = ReservationInfo(name="r", nodes=("n1",), start_s=NOW_S + 1200, end_s=NOW_S + 9000)
    client = MemoryClient(
        known_nodes=cluster("IDLE", "IDLE+POWERED_DOWN"),
        known_reservations=(one,),
        known_config=SAVING,
    )
    planned = loop_of(client, settings_of(tmp_path)).plan(NOW_S)
    assert done(planned) == [("n1", "POWER_UP")]
    assert "reservation r" in planned[0].why


def test_jobs_that_wait_for_nodes_keep_and_wake_them(tmp_path: Path) -> None:
    """A pending job of two nodes is need; one held by its user, or elsewhere, is none."""
    jobs = (
        JobInfo(job_id=1, state="PENDING", reason="Resources", node_count=2, partition="main"),
        JobInfo(job_id=2, state="PENDING", reason="JobHeldUser", node_count=9, partition="main"),
        JobInfo(job_id=3, state="PENDING", reason="Priority", node_count=9, partition="other"),
    )
    nodes = nodes_of(cluster("MIXED", *["IDLE"] * 11), (), NodeTimes({}, {}), NOW_S)
    assert need(nodes, jobs, "main") == 3
    assert need(nodes, jobs, "*") == 12
    client = MemoryClient(
        known_jobs=jobs[:1],
        known_nodes=cluster("MIXED", *["IDLE+POWERED_DOWN"] * 9),
        known_config=SAVING,
    )
    assert len(loop_of(client, settings_of(tmp_path)).plan(NOW_S)) == 4  # two, and two to spare


def test_a_node_that_did_not_wake_stops_all_sleeping(tmp_path: Path) -> None:
    """Slurm has it down and powered down: the machine room is looked at first."""
    nodes = cluster("DOWN+POWERED_DOWN+NOT_RESPONDING", *["IDLE"] * 9)
    loop = loop_of(MemoryClient(known_nodes=nodes, known_config=SAVING), settings_of(tmp_path))
    assert loop.plan(NOW_S) == []
    assert "did not wake: n0" in loop.status()["pools"]["*"]["reason"]


def test_nothing_sleeps_before_demand_is_known_for_long_enough(tmp_path: Path) -> None:
    """A day, unless the site says otherwise; the reason says how much is lacking."""
    client = MemoryClient(known_nodes=cluster(*["IDLE"] * 9), known_config=SAVING)
    loop = loop_of(client, settings_of(tmp_path, energy__history_h=24.0))
    assert loop.plan(NOW_S) == []
    assert "0.2 h of demand are known, 24 are needed" in loop.status()["pools"]["*"]["by"]
    for hour in range(1, 26):
        planned = loop.plan(NOW_S + 3600 * hour)
    assert len(planned) == 8


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ({}, "no SuspendProgram and no ResumeProgram"),
        ({**SAVING, "SuspendTime": "NONE"}, "no SuspendTime"),
    ],
)
def test_without_slurms_power_saving_nothing_is_asked_of_it(
    tmp_path: Path, config: dict[str, str], why: str
) -> None:
    """In act; shadow shows all the same what would be done."""
    client = MemoryClient(known_nodes=cluster(*["IDLE"] * 9), known_config=config)
    loop = loop_of(client, settings_of(tmp_path))
    assert loop.plan(NOW_S) == ()
    assert why in loop.status()["hindered"]
    assert len(loop_of(client, settings_of(tmp_path, "shadow")).plan(NOW_S)) == 8


def test_pools_are_partitions_and_a_node_belongs_to_the_first(tmp_path: Path) -> None:
    """Each by its own demand; nodes of no named partition are left alone."""
    nodes = (
        *cluster(*["IDLE"] * 4, partitions=("gpu", "all")),
        *(replace(n, name=f"m{n.name}", partitions=("all",)) for n in cluster(*["MIXED"] * 4)),
        *(replace(n, name=f"x{n.name}", partitions=("own",)) for n in cluster("IDLE", "IDLE")),
    )
    client = MemoryClient(known_nodes=nodes, known_config=SAVING)
    loop = loop_of(client, settings_of(tmp_path, energy__partitions=["gpu", "all"]))
    assert [name for name, _ in done(loop.plan(NOW_S))] == ["n0", "n1", "n2"]
    assert loop.status()["pools"]["all"]["needed"] == 4


def test_a_lack_that_lasts_is_one_wake_and_settles_after_it(tmp_path: Path) -> None:
    """Rounds by a timer know of it too: nothing sleeps for as long as energy.settle_s says."""
    settings = settings_of(tmp_path, energy__settle_s=600.0)
    client = MemoryClient(
        known_nodes=cluster(*["MIXED"] * 5, "MIXED+POWERING_UP", *["IDLE+POWERED_DOWN"] * 4),
        known_config=SAVING,
    )
    for second in range(3):
        assert len(loop_of(client, settings).plan(NOW_S + second)) == 2  # to spare, no more
    client.known_nodes = cluster(*["IDLE"] * 6, *["IDLE+POWERED_DOWN"] * 4)
    assert loop_of(client, settings).plan(NOW_S + 300) == []
    loop = loop_of(client, settings)
    for hour in range(1, 6):  # the past hours' need is forgotten, the wake has settled
        planned = loop.plan(NOW_S + 3600 * hour)
    assert len(planned) == 5


def test_replay_and_live_decide_the_same_from_the_same_state(tmp_path: Path) -> None:
    """One policy function: a cluster as Slurm tells it, and the same state as a replay has it."""
    client = MemoryClient(
        known_nodes=cluster("MIXED", "MIXED", *["IDLE"] * 10, *["IDLE+POWERED_DOWN"] * 3),
        known_config=SAVING,
    )
    settings = settings_of(tmp_path)
    live = loop_of(client, settings).plan(NOW_S)
    kinds = (
        [(True, PowerState.ON)] * 2
        + [(False, PowerState.ON)] * 10
        + [(False, PowerState.ASLEEP)] * 3
    )
    replayed = [
        EnergyNode(name=f"n{at}", power=power, busy=busy, since_s=NOW_S)
        for at, (busy, power) in enumerate(kinds)
    ]
    series = DemandSeries(np.array([2]), np.array([15]), np.array([2.0]))
    rules = rules_of(settings)
    _, steps = decide(replayed, needs_at(series, 0, rules), now_s=NOW_S, rules=rules)
    assert [one.subject for one in live] == [step.node for step in steps]
    assert all(step.sleep for step in steps)
    assert len(steps) == 8
    assert needs_at(series, 0, rules) == NodeDemand(now=2, past_peak=2, peak=2.0)


def test_shadow_writes_moves_and_changes_nothing(tmp_path: Path) -> None:
    """The frame's promise, kept by this loop; a look leaves no trace at all."""
    client = MemoryClient(known_nodes=cluster(*["IDLE"] * 9))
    settings = settings_of(tmp_path, "shadow")
    loop = loop_of(client, settings)
    folder = cluster_state(tmp_path, "energy")
    moves = PlannedLoop(loop, KIND, settings, folder, None, lambda: NOW_S).round()
    assert {(move.kind, move.mode, move.done) for move in moves} == {
        ("energy", "shadow", "POWER_DOWN")
    }
    assert client.asked == []
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    loop_of(client, settings, writes=False).plan(NOW_S + 5000)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("wakes", [False, True])
def test_at_the_end_sleepers_are_slurms_or_woken_as_the_site_says(
    tmp_path: Path, wakes: bool
) -> None:
    """Only those that we put to sleep, never one that an administrator did."""
    settings = settings_of(tmp_path, energy__wake_at_end=wakes)
    client = MemoryClient(
        known_nodes=cluster("IDLE+POWERED_DOWN", *["IDLE"] * 9), known_config=SAVING
    )
    loop = loop_of(client, settings)
    for planned in loop.plan(NOW_S):
        loop.apply(planned)
    client.known_nodes = cluster(*["IDLE+POWERED_DOWN"] * 9, "IDLE")
    again = loop_of(client, settings).undo(NOW_S + 60)
    assert [one.subject for one in again] == ([f"n{at}" for at in range(1, 9)] if wakes else [])
    assert isinstance(again, tuple) or all(isinstance(one, PlannedAction) for one in again)
