"""Actions, forecasts and status of the energy loop, word for word and at their bounds."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slurm_ext.control.energy.demand_forecast import folder_of, forecast, safely
from slurm_ext.control.energy.energy_loop import KIND, EnergyLoop, _finite, rules_of
from slurm_ext.control.energy.nodes import AHEAD_S, DUE_S, NodeTimes, nodes_of
from slurm_ext.control.energy.series import KEPT_SLOTS, DemandRecorder
from slurm_ext.control.loops.loop_state import LoopState, cluster_state
from slurm_ext.control.loops.planned_loop import DONE, PlannedAction
from slurm_ext.core.settings.document import Settings
from slurm_ext.model.demand.model import SLOT_S
from slurm_ext.model.demand.series import NOBODY, RecordedDemand
from slurm_ext.slurm.in_memory import MemoryClient
from slurm_ext.slurm.records import JobInfo, NodeInfo, PowerCommand, ReservationInfo

NOW_S = 1_800_000_000.0
SAVING = {"SuspendProgram": "/s", "ResumeProgram": "/r", "SuspendTime": "3600"}


def node(name: str, state: str = "IDLE") -> NodeInfo:
    """A node of partition p."""
    return NodeInfo(name=name, cpus=4, mem_mib=1, state=state, partitions=("p",))


def loop_of(
    folder: Path, client: MemoryClient, mode: str = "act", **settings: Any
) -> tuple[EnergyLoop, LoopState]:
    """A loop that needs no history."""
    values = {
        "energy.mode": mode,
        "energy.history_h": 0.0,
        "energy.settle_s": 0.0,
        "energy.min_off_s": 0.0,
        "energy.min_idle_s": 0.0,
        "energy.partitions": ["p"],
        "paths.state_dir": str(folder),
    }
    values |= {f"energy.{key}": value for key, value in settings.items()}
    state = cluster_state(folder, "energy")
    state.path.mkdir(parents=True, exist_ok=True)
    return EnergyLoop(Settings(values=values), client, state), state


def cluster(*states: str, config: dict[str, str] | None = None) -> MemoryClient:
    """Nodes n0, n1, ..."""
    nodes = tuple(node(f"n{at}", state) for at, state in enumerate(states))
    known = SAVING if config is None else config
    return MemoryClient(known_nodes=nodes, known_config=known, obeys=True)


def test_rules_are_the_settings() -> None:
    """Each of the seven is its own setting."""
    names = ("buffer", "spare", "least", "level", "settle_s", "min_off_s", "min_idle_s")
    values = {f"energy.{name}": number for number, name in enumerate(names, 2)}
    rules = rules_of(Settings(values=values))
    assert [getattr(rules, name) for name in names] == [2, 3, 4, 5.0, 6, 7, 8]


def test_a_node_is_put_to_sleep_and_noted_as_ours(tmp_path: Path) -> None:
    """Slurm's word, the reason with its forecast, the need; the note is on the disk first."""
    client = cluster("MIXED", "IDLE", "IDLE", "IDLE", "IDLE", "IDLE", "IDLE", "IDLE")
    loop, state = loop_of(tmp_path, client)
    planned = loop.plan(NOW_S)[0]
    assert (planned.done, planned.job_id, dict(planned.after)) == ("POWER_DOWN", None, {})
    assert dict(planned.before) == {"needed": 1, "peak": 1.0}
    assert planned.why.endswith(" (by persistence)")
    assert state.load(dict)["ours"] == []
    assert loop.apply(planned) == DONE
    assert state.load(dict)["ours"] == [planned.subject]
    assert client.asked == [("power", (planned.subject,), PowerCommand.DOWN)]


def test_a_node_that_is_woken_is_not_ours(tmp_path: Path) -> None:
    """Its reason stands alone."""
    client = cluster("MIXED", *["IDLE+POWERED_DOWN"] * 4)
    waits = JobInfo(job_id=1, state="PENDING", reason="Resources", node_count=2, partition="p")
    client.known_jobs = (waits,)
    loop, state = loop_of(tmp_path, client)
    planned = loop.plan(NOW_S)
    assert {action.done for action in planned} == {"POWER_UP"}
    assert "(by" not in planned[0].why
    assert loop.apply(planned[0]) == DONE
    assert state.load(dict)["ours"] == []
    assert client.asked == [("power", (planned[0].subject,), PowerCommand.UP)]


def test_at_the_end_our_sleepers_are_woken_in_these_words(tmp_path: Path) -> None:
    """Sorted by name; only where the site wants that."""
    client = cluster("IDLE+POWERED_DOWN", "IDLE+POWERED_DOWN", "IDLE+POWERED_DOWN", "IDLE")
    loop, _ = loop_of(tmp_path, client, wake_at_end=True)
    loop._memory.ours = {"n2", "n0", "n3"}
    assert loop.undo(NOW_S) == [
        PlannedAction(subject=name, done="POWER_UP", why="energy saving ends")
        for name in ("n0", "n2")
    ]
    loop, _ = loop_of(tmp_path, client)
    loop._memory.ours = {"n0"}
    assert loop.undo(NOW_S) == ()


NO_TIME = "slurm.conf has no SuspendTime, and without it Slurm suspends no node"


@pytest.mark.parametrize(
    ("config", "hindrance"),
    [
        (SAVING, ""),
        ({}, "slurm.conf has no SuspendProgram and no ResumeProgram"),
        ({**SAVING, "SuspendTime": "NONE"}, NO_TIME),
        ({**SAVING, "SuspendTime": "-1"}, NO_TIME),
        ({**SAVING, "SuspendTime": "INFINITE"}, NO_TIME),
        ({**SAVING, "SuspendTime": "0"}, ""),
        ({"SuspendProgram": "/s", "ResumeProgram": "/r"}, NO_TIME),
        ({"SuspendProgram": "/s", "SuspendTime": "1"}, "slurm.conf has no ResumeProgram"),
        ({"ResumeProgram": "/r", "SuspendTime": "1"}, "slurm.conf has no SuspendProgram"),
    ],
)
def test_what_hinders_the_loop(tmp_path: Path, config: dict[str, str], hindrance: str) -> None:
    """In act nothing is planned then; in shadow it is, as if Slurm had power saving."""
    client = cluster("MIXED", *["IDLE"] * 9, config=config)
    loop, _ = loop_of(tmp_path, client)
    assert bool(loop.plan(NOW_S)) is (hindrance == "")
    assert loop.status()["hindered"] == hindrance
    loop, _ = loop_of(tmp_path, client, "shadow")
    assert loop.plan(NOW_S)
    assert loop.status()["hindered"] == ""


def test_a_loop_without_partitions_does_nothing(tmp_path: Path) -> None:
    """In shadow, too, with the reason."""
    loop, _ = loop_of(tmp_path, cluster(*["IDLE"] * 9), "shadow", partitions=[])
    assert loop.plan(NOW_S) == ()
    assert loop.status() == {
        "hindered": "energy.partitions names none",
        "unknown": [],
        "pools": {},
    }


def test_the_status_of_a_pool(tmp_path: Path) -> None:
    """Nodes by power, the need, the bound rounded up, and why."""
    client = cluster("MIXED", "IDLE", "IDLE", "IDLE+POWERED_DOWN", "IDLE+DRAIN", "IDLE+POWERING_UP")
    loop, _ = loop_of(tmp_path, client)
    loop.plan(NOW_S)
    pool = loop.status()["pools"]["p"]
    assert (sorted(pool), pool["needed"], pool["peak"], pool["by"]) == (
        ["aim", "by", "needed", "nodes", "peak", "reason"],
        1,
        1,
        "persistence",
    )
    assert sorted(pool["nodes"].values()) == [0, 1, 1, 1, 3]


def test_nodes_that_did_not_wake_are_named(tmp_path: Path) -> None:
    """All of them; the bound is then all nodes that are there."""
    client = cluster("DOWN+POWERED_DOWN", "DOWN+POWERED_DOWN", *["IDLE"] * 5)
    loop, _ = loop_of(tmp_path, client)
    assert loop.plan(NOW_S) == []
    pool = loop.status()["pools"]["p"]
    assert (pool["reason"], pool["peak"]) == ("did not wake: n0, n1; nothing sleeps", 5)


def test_a_node_of_two_pools_is_of_the_first(tmp_path: Path) -> None:
    """And a partition that is named twice is one."""
    loop, _ = loop_of(tmp_path, cluster(*["IDLE"] * 4), partitions=["p", "*", "p"])
    loop.plan(NOW_S)
    pools = loop.status()["pools"]
    assert {name: sum(pool["nodes"].values()) for name, pool in pools.items()} == {"p": 4, "*": 0}


def test_the_open_slot_outlives_the_process(tmp_path: Path) -> None:
    """A round by a timer goes on with the peak of the one before."""
    client = cluster("MIXED", "MIXED", "IDLE")
    loop, state = loop_of(tmp_path, client)
    loop.plan(NOW_S)
    slot = int(NOW_S // SLOT_S)
    assert state.load(dict)["running"] == {"p": [slot, 2, 3, NOBODY]}
    client.known_nodes = (node("n0"), node("n1"))
    loop, state = loop_of(tmp_path, client)
    loop.plan(NOW_S + 1)
    assert state.load(dict)["running"] == {"p": [slot, 2, 3, NOBODY]}


@pytest.mark.parametrize(
    ("slots", "history_h", "knows"),
    [(0, 0.0, True), (0, 0.1, False), (4, 4 * SLOT_S / 3600, True), (3, 4 * SLOT_S / 3600, False)],
)
def test_a_forecast_needs_its_history(slots: int, history_h: float, knows: bool) -> None:
    """So many hours of demand, to the slot; without any, no demand is known."""
    found = forecast(
        RecordedDemand(10, np.full(slots, 3.0), np.full(slots, 3.0), [NOBODY] * slots),
        None,
        level=0.9,
        history_h=history_h,
    )
    assert found.knows is knows
    if not knows:
        hours = slots * SLOT_S / 3600
        expected = f"{hours:.1f} h of demand are known, {history_h:g} are needed"
        assert (found.peak, found.by) == (float("inf"), expected)
    elif slots == 0:
        assert (found.peak, found.by) == (0.0, "nothing known")
    else:
        assert (found.peak, found.by) == (3.0, "persistence")


def test_without_a_promoted_model_persistence_serves(tmp_path: Path) -> None:
    """A damaged one is named; the folder is the pool's own."""
    assert safely(tmp_path, "p") == (None, "")
    folder = folder_of(tmp_path, "p")
    assert folder == tmp_path / "models/demand" / folder.name
    broken = folder / "v1"
    broken.mkdir(parents=True)
    (folder / "current").symlink_to("v1")
    model, wrong = safely(tmp_path, "p")
    assert model is None
    assert wrong.endswith("; persistence serves")
    loop, _ = loop_of(tmp_path, cluster("MIXED", *["IDLE"] * 9))
    assert loop.plan(NOW_S)[0].why.endswith(f" (by {wrong})")


@pytest.mark.parametrize(
    ("number", "expected"), [(float("inf"), None), (2.25, 2.2), (2.26, 2.3), (0.0, 0.0)]
)
def test_a_bound_in_the_journal(number: float, expected: float | None) -> None:
    """To a tenth of a node; none where it is not known."""
    assert _finite(number) == expected


def test_the_loops_settings() -> None:
    """For the runner."""
    expected = ("energy", "energy.mode", "energy.interval_s", "energy.")
    assert (KIND.name, KIND.mode, KIND.interval, KIND.prefix) == expected


def test_reasons_to_stay_awake_in_these_words() -> None:
    """The setting comes before a reservation, a named one before Slurm's flag."""
    reservation = ReservationInfo(
        name="exam", nodes=("n1", "n2", "n3"), start_s=NOW_S + DUE_S, end_s=NOW_S + 1e6
    )
    nodes = nodes_of(
        [node("n0", "IDLE+RESERVED"), node("n1", "IDLE+RESERVED"), node("n2"), node("n4")],
        [reservation],
        NodeTimes({}, {}),
        NOW_S,
        {"n2": "excluded by the settings"},
    )
    due = "reservation exam begins or has begun"
    assert [(one.kept, one.due, one.since_s) for one in nodes] == [
        ("reserved", "", NOW_S),
        ("reserved by exam", due, NOW_S),
        ("excluded by the settings", due, NOW_S),
        ("", "", NOW_S),
    ]


@pytest.mark.parametrize(
    ("start_s", "end_s", "kept"),
    [
        (-9.0, 0.0, False),
        (-9.0, 0.001, True),
        (AHEAD_S, AHEAD_S + 9, True),
        (AHEAD_S + 1, 9e9, False),
    ],
)
def test_a_reservation_counts_from_hours_before_it_to_its_end(
    start_s: float, end_s: float, kept: bool
) -> None:
    """Seconds from now, at both bounds."""
    reservation = ReservationInfo(
        name="r", nodes=("n1",), start_s=NOW_S + start_s, end_s=NOW_S + end_s
    )
    (seen,) = nodes_of([node("n1")], [reservation], NodeTimes({}, {}), NOW_S)
    assert bool(seen.kept) is kept


def test_demand_that_cannot_be_recorded_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The loop goes on by its memory."""
    (tmp_path / "x").write_text("in the way")
    recorder = DemandRecorder(tmp_path / "x", "p", (5, 2, 3, NOBODY), writes=True)
    recorder.see(SLOT_S * 6, 1, 3)
    series = recorder.series()
    assert (series.first, series.need.tolist()) == (5, [2.0, 1.0])
    (message,) = caplog.messages
    assert ": demand is not recorded: " in message
    assert message.startswith(str(tmp_path / "x"))


def test_a_clock_that_goes_back_ends_no_slot(tmp_path: Path) -> None:
    """Nothing is written for it; the slot of now is the open one."""
    recorder = DemandRecorder(tmp_path, "p", (7, 2, 3, NOBODY), writes=True)
    recorder.see(SLOT_S * 6, 1, 1)
    assert recorder.running == (6, 1, 1, NOBODY)
    assert list(tmp_path.iterdir()) == []


def test_slots_are_kept_for_a_week_and_a_day(tmp_path: Path) -> None:
    """The oldest goes exactly then."""
    recorder = DemandRecorder(tmp_path, "p", (5, 2, 3, NOBODY), writes=False)
    recorder.see(SLOT_S * 6, 1, 3)
    recorder.see(SLOT_S * (5 + KEPT_SLOTS - 1), 1, 3)
    assert sorted(recorder._ended) == [5, 6]
    recorder.see(SLOT_S * (5 + KEPT_SLOTS), 1, 3)
    assert sorted(recorder._ended) == [6, 5 + KEPT_SLOTS - 1]
    assert KEPT_SLOTS * SLOT_S == 8 * 86400
