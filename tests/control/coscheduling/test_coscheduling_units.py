"""Units of the co-scheduling loop at their bounds: candidates, holds, speeds and status."""

from pathlib import Path
from typing import Any

import pytest

from slurm_ext.control.coscheduling.begin_time_holds import BeginTimeHolds
from slurm_ext.control.coscheduling.jobs import (
    BeginTimeHold,
    candidate,
    look,
    opted_in,
    why_left_alone,
)
from slurm_ext.control.coscheduling.pair_memory import PairMemory, pair_state
from slurm_ext.control.coscheduling.speed_monitor import SpeedMonitor, on_this_machine
from slurm_ext.control.coscheduling.status import gist, moved, parted, row, running_rows, status
from slurm_ext.core.errors import SlurmError
from slurm_ext.core.gpu_sharing import RelativeSpeed, SoloProfile, SpeedBasis
from slurm_ext.core.settings.document import Settings
from slurm_ext.policy.colocation.choose_pairs import Candidate
from slurm_ext.policy.colocation.co_scheduling import PlacementAction
from slurm_ext.policy.colocation.colocation_monitor import CoLocationState
from slurm_ext.policy.colocation.terms import Pair
from slurm_ext.slurm import JobInfo, MemoryClient

NOW_S = 1000.0
SETTINGS = Settings(values={"sharing.lease_s": 100, "sharing.most_wait_s": 500.0})


def info(**changes: Any) -> JobInfo:
    """A waiting CPU job that agreed."""
    fields: dict[str, Any] = {
        "job_id": 7,
        "name": "x",
        "user_name": "ann",
        "state": "PENDING",
        "cpus": 2,
        "comment": "dlqueue=share",
        "node_count": 1,
        "priority": 9,
        "reason": "Priority",
    }
    return JobInfo(**{**fields, **changes})


# -- candidates --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "hold", "why"),
    [
        ({}, None, None),
        ({"reason": "None"}, None, None),
        ({"reason": ""}, None, None),
        ({"reason": "Resources"}, None, None),
        ({"reason": "BeginTime"}, None, None),
        ({"node_count": None}, None, None),
        ({"reason": "Dependency"}, None, "waits for something else: Dependency"),
        ({"array_job_id": 3}, None, "is an array"),
        ({"het_job_id": 3}, None, "is a heterogeneous job"),
        ({"gres": "gpu:1"}, None, "asks for more than CPUs"),
        ({"node_count": 2}, None, "may take several nodes"),
        ({"cpus": 0}, None, "may take several nodes"),
        ({"required_nodes": "n1"}, None, "its user chose nodes"),
        ({"required_nodes": "n1"}, BeginTimeHold(until_s=0.0), "its user chose nodes"),
        ({"required_nodes": "n1"}, BeginTimeHold(until_s=0.0, node="n1"), None),
        ({"excluded_nodes": "n1"}, BeginTimeHold(until_s=0.0, node="n1"), "its user chose nodes"),
        ({"eligible_time_s": 1001}, None, None),
        ({"eligible_time_s": 1002}, None, "its user chose when to begin"),
        ({"eligible_time_s": 1160}, BeginTimeHold(until_s=1100.0), None),
        ({"eligible_time_s": 1161}, BeginTimeHold(until_s=1100.0), "its user chose when to begin"),
    ],
)
def test_jobs_that_are_left_to_slurm(
    changes: dict[str, Any], hold: BeginTimeHold | None, why: str | None
) -> None:
    """Each with its reason; our own start time, with a minute for Slurm's clock, is none."""
    assert why_left_alone(info(**changes), hold, NOW_S) == why


@pytest.mark.parametrize(
    ("comment", "accounts", "partitions", "agreed"),
    [
        ("dlqueue=share", [], [], True),
        ("a;dlqueue=share,b", [], [], True),
        ("dlqueue=alone dlqueue=share", ["phys"], [], False),
        ("dlqueue=off", ["phys"], [], False),
        ("", [], [], False),
        ("", ["phys"], [], True),
        ("", ["bio"], [], False),
        ("", [], ["a", "b"], True),
        ("", [], ["a"], False),
    ],
)
def test_who_agreed(comment: str, accounts: list[str], partitions: list[str], agreed: bool) -> None:
    """The job by its comment, else its account, else each of its partitions."""
    settings = Settings(values={"sharing.accounts": accounts, "sharing.partitions": partitions})
    job = info(comment=comment, account="phys", partition="a,b")
    assert opted_in(job, settings) is agreed


def test_a_job_in_the_words_of_the_policy() -> None:
    """Time left by its end or its limit; a limit of 300 days is none."""
    settings = Settings(values={"sharing.accounts": [], "sharing.partitions": []})

    def left_s(**changes: Any) -> float | None:
        return candidate(info(**changes), "k", settings, NOW_S).remaining_s

    assert left_s(time_limit_minutes=10) == 600.0
    assert left_s(time_limit_minutes=None) is None
    assert left_s(time_limit_minutes=60 * 24 * 300) is None
    assert left_s(time_limit_minutes=60 * 24 * 300 - 1) is not None
    assert left_s(time_limit_minutes=10, state="RUNNING", end_time_s=1300) == 300.0
    assert left_s(time_limit_minutes=10, state="RUNNING", end_time_s=900) == 0.0
    assert left_s(time_limit_minutes=10, state="RUNNING") == 600.0
    assert left_s(time_limit_minutes=10, end_time_s=1300) == 600.0
    waits = candidate(info(cpus=3), "k", settings, NOW_S)
    assert (waits.cpus, waits.rank, waits.place, waits.account) == (3, -9.0, None, None)
    runs = candidate(info(state="RUNNING", nodes="n1", account="a"), "k", settings, NOW_S)
    assert (runs.place, runs.account, runs.solo.key, runs.user) == ("n1", "a", "k", "ann")
    assert candidate(info(cpus=None, priority=None), "", settings, NOW_S).rank == 0.0


def test_jobs_of_one_look() -> None:
    """Running ones of one node; waiting ones that agreed, or why not."""
    settings = Settings(values={"sharing.accounts": [], "sharing.partitions": []})
    jobs = [
        info(job_id=1),
        info(job_id=2, comment=""),
        info(job_id=3, array_job_id=3),
        info(job_id=4, state="RUNNING", nodes="n1", comment=""),
        info(job_id=5, state="RUNNING", nodes="n1,n2"),
        info(job_id=6, state="RUNNING", nodes="n[1-2]"),
        info(job_id=8, state="RUNNING", nodes=""),
    ]
    seen = look(jobs, {"1.0": "k"}, {}, settings, NOW_S)
    assert [c.job for c in seen.waiting] == ["1.0"]
    assert [c.job for c in seen.running] == ["4.0"]
    assert dict(seen.left_alone) == {"3.0": "is an array"}
    assert set(seen.infos) == {"1.0", "4.0"}


# -- holds -------------------------------------------------------------------------------------


def action(job: str, **changes: Any) -> PlacementAction:
    """An action that holds the job back."""
    fields: dict[str, Any] = {"start": False, "place": None, "reason": "others go first"}
    return PlacementAction(job=job, **{**fields, **changes})


class Site:
    """Holds on a cluster that notes what it is asked."""

    def __init__(self, tmp_path: Path, **holds: BeginTimeHold) -> None:
        self.client = MemoryClient(known_jobs=tuple(info(job_id=n) for n in (1, 2, 3)))
        self.state = pair_state(tmp_path)
        self.state.path.mkdir(parents=True)
        self.memory = PairMemory(
            holds={name.replace("_", "") + ".0": h for name, h in holds.items()}
        )
        self.holds = BeginTimeHolds(SETTINGS, self.client, self.state, self.memory)

    def carry_out(self, *actions: PlacementAction, bind: bool = False) -> list[Any]:
        """What was asked."""
        self.client.asked.clear()
        self.started = self.holds.carry_out(actions, NOW_S, bind=bind)
        return list(self.client.asked)


def test_a_hold_is_renewed_at_half_its_time(tmp_path: Path) -> None:
    """Not before; what is on the disk is what Slurm has."""
    site = Site(tmp_path, _1=BeginTimeHold(until_s=1050.0))
    assert site.carry_out(action("1.0")) == []
    site.memory.holds["1.0"] = BeginTimeHold(until_s=1049.9, put_off_s=3.0)
    assert site.carry_out(action("1.0")) == [("delay", (1,), 100)]
    assert site.memory.holds["1.0"] == BeginTimeHold(until_s=1100.0, put_off_s=3.0)
    assert site.state.load(PairMemory.from_json).holds == site.memory.holds


def test_a_bound_job_that_is_held_back_again_is_not_bound(tmp_path: Path) -> None:
    """Its node is free for others until then."""
    site = Site(tmp_path, _1=BeginTimeHold(until_s=900.0, node="n1"))
    assert site.carry_out(action("1.0")) == [("delay", (1,), 100), ("bind", 1, None)]
    assert site.memory.holds["1.0"].node is None


def test_waiting_counts_only_while_there_was_room(tmp_path: Path) -> None:
    """And only of jobs that are held back; the bound is the site's."""
    site = Site(tmp_path, _1=BeginTimeHold(until_s=0.0), _2=BeginTimeHold(until_s=0.0))
    site.holds.charge([action("1.0")], 1000.0)
    site.holds.charge([action("1.0"), action("2.0", room=False)], 1499.0)
    assert site.memory.holds["1.0"].put_off_s == 499.0
    assert site.memory.holds["2.0"].put_off_s == 0.0
    assert not site.holds.overdue("1.0")
    site.holds.charge([action("1.0", free=True)], 1600.0)
    assert not site.holds.overdue("1.0")
    site.holds.charge([action("1.0")], 1601.0)
    assert site.holds.overdue("1.0")
    assert not site.holds.overdue("3.0")


def test_several_jobs_are_released_by_one_command(tmp_path: Path) -> None:
    """A job that was never held back is asked nothing of; one that is bound is so first."""
    held = BeginTimeHold(until_s=1100.0)
    site = Site(tmp_path, _1=held, _2=held)
    free = [action(f"{n}.0", free=True, start=True) for n in (1, 2, 3)]
    assert site.carry_out(*free) == [("delay", (1, 2), 0)]
    assert set(site.started) == {"1.0", "2.0", "3.0"}
    assert site.carry_out(*free) == []
    site = Site(tmp_path / "bound", _1=held)
    bound = action("1.0", free=True, start=True, place="n1")
    assert site.carry_out(bound, bind=True) == [("bind", 1, "n1"), ("delay", (1,), 0)]
    assert site.started == {"1.0": (NOW_S, "n1")}
    assert site.carry_out(bound, bind=False) == [("bind", 1, None), ("delay", (1,), 0)]


def test_a_job_that_slurm_refuses_to_release_keeps_its_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has not started by us; the end says that it is still held."""

    def refused(*_: object) -> None:
        raise SlurmError("scontrol", 1, "Job is no longer pending")

    monkeypatch.setattr(MemoryClient, "delay", refused)
    held = BeginTimeHold(until_s=1100.0)
    site = Site(tmp_path, _1=held)
    site.carry_out(action("1.0", free=True, start=True))
    assert (site.started, site.memory.holds) == ({}, {"1.0": held})
    with pytest.raises(SlurmError, match="not every job could be freed"):
        site.holds.end()
    assert site.memory.holds == {"1.0": held}


# -- speeds ------------------------------------------------------------------------------------


class Counters:
    """Live counters that the test sets: seconds, instructions, memory."""

    def __init__(self) -> None:
        self.now: dict[str, tuple[float, float, float]] = {}

    def __call__(self, job: str) -> dict[str, tuple[str, float]]:
        """A reading."""
        if job not in self.now:
            return {}
        at_s, count, mem = self.now[job]
        return {
            "sample_s": ("clock", at_s),
            "perf_instructions": ("perf", count),
            "mem_held_peak": ("cgroup", mem),
        }


def runs(job: str, place: str = "n1") -> Candidate:
    """A running job; its key is its name's first letter."""
    return Candidate(job=job, solo=SoloProfile(key=job[0]), user="ann", opted_in=True, place=place)


def test_a_job_beside_others_is_measured_against_its_own_rate() -> None:
    """Alone it is learnt from; too slow for long enough it is reported, once."""
    live, rates, held = Counters(), dict[str, float](), dict[str, float]()
    monitor = SpeedMonitor(live, rates, 20.0, held)
    floors = {"a": 0.8, "b": 0.8}
    live.now = {"a": (0.0, 0.0, 5.0)}
    assert monitor.look([runs("a")], floors) == {}
    live.now = {"a": (10.0, 1000.0, 3.0)}
    monitor.look([runs("a")], floors)
    assert (rates, held) == ({"a": 100.0}, {"a": 5.0})
    live.now = {"a": (20.0, 4000.0, 9.0)}
    monitor.look([runs("a")], floors)
    assert rates["a"] == pytest.approx(160.0)
    assert (held["a"], monitor.speeds()) == (9.0, {})
    pair = [runs("a"), runs("b"), runs("c", place="n2")]
    found = []
    floors["c"] = 0.8
    for step in range(6):
        live.now["a"] = (20.0 + 10 * step, 4000.0 + 800 * step, 1.0)
        found.append(monitor.look(pair, floors))
    below = {"a": CoLocationState.BELOW}
    assert found == [{}, {}, {}, below, {}, {}]
    assert monitor.speeds() == {"a": pytest.approx(0.5), "b": None}


def test_without_hooks_nothing_is_measured(tmp_path: Path) -> None:
    """A job that is not there has no reading."""
    assert on_this_machine(str(tmp_path))("1.0") == {}


# -- status ------------------------------------------------------------------------------------


def pair() -> Pair:
    """Two jobs that are matched."""
    speed = RelativeSpeed(mean=0.9, low=0.87654, high=1.0, evidence=SpeedBasis.PAIR)
    return Pair(jobs=("1.0", "2.0"), speeds={"1.0": speed}, weight=1.0, place="n1", reason="45 s")


def test_an_action_is_new_when_its_gist_is() -> None:
    """Seconds in a pair's reason change each round; a job left to Slurm is nothing to tell."""
    untouched = action("1.0", free=True)
    assert gist(untouched) == "True None"
    one = action("1.0", start=True, free=True, place="n1", pair=pair(), reason="45 s")
    other = action("1.0", start=True, free=True, place="n1", pair=pair(), reason="44 s")
    assert gist(one) == gist(other)
    assert gist(action("1.0")) != gist(action("1.0", reason="no node has room"))
    assert gist(action("1.0", start=True, free=True)) != "True None"


def test_rows_and_recorded_actions() -> None:
    """Where, when, why, and the speeds that are relied on."""
    joined = action("7.0", start=True, free=True, place="n1", pair=pair(), reason="45 s")
    assert row(joined) == {
        "job": "7.0",
        "start": True,
        "free": True,
        "place": "n1",
        "reason": "45 s",
        "at_least": {"1.0": 0.877},
    }
    recorded = moved(joined, NOW_S, "act", 100.0)
    assert (recorded.done, recorded.job_id, recorded.kind) == ("StartTime=now on n1", 7, "pair")
    assert dict(recorded.after) == {
        k: row(joined)[k] for k in ("start", "free", "place", "at_least")
    }
    assert moved(action("7.0"), NOW_S, "act", 100.0).done == "StartTime=now+100"
    rows = running_rows([runs("a")], {"a": 0.5})
    body = status(NOW_S, "act", [joined], rows, {"8.0": "is an array"}, {frozenset("ba")})
    assert body["running"] == [{"job": "a", "node": "n1", "speed": 0.5}]
    assert (body["kept_apart"], body["left_alone"]) == ([["a", "b"]], {"8.0": "is an array"})


def test_a_pair_that_is_parted() -> None:
    """One action for the slowed job, one more for another that is requeued."""
    below, names = CoLocationState.BELOW, ["1.0", "2.0"]
    (alone,) = parted("1.0", None, below, names, NOW_S, "act")
    assert (alone.done, alone.why) == (
        "kept apart the next time",
        "below its floor for a while beside job 2",
    )
    (itself,) = parted("1.0", "1.0", below, names, NOW_S, "act")
    assert itself.done == "requeue 1"
    hurt, again = parted("1.0", "2.0", below, names, NOW_S, "act")
    assert (hurt.done, again.done, again.job_id) == ("requeue 2", "requeue", 2)
    assert "beside it job 1 was below its floor" in again.why
