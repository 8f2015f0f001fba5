"""Rounds of co-scheduling at their bounds: rules, limits of a round, messages, memory, speeds."""

import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.control.coscheduling.co_scheduling_loop import (
    KIND,
    MOST_READ,
    MOST_STEERED,
    START_S,
    CoScheduler,
)
from slurm_ext.control.coscheduling.jobs import (
    BeginTimeHold,
    SharingJobs,
    candidate,
    id_of,
    look,
    name_of,
    room,
    with_needs,
    words,
)
from slurm_ext.control.coscheduling.pair_memory import PairMemory, pair_state
from slurm_ext.control.coscheduling.speed_monitor import (
    MOST_KNOWN,
    NEWEST,
    SpeedMonitor,
    remember,
)
from slurm_ext.control.coscheduling.status import moved, parted, status
from slurm_ext.core.errors import SlurmError
from slurm_ext.core.gpu_sharing import RelativeSpeed, SoloProfile, SpeedBasis
from slurm_ext.core.settings.document import Settings
from slurm_ext.policy.colocation.choose_pairs import Candidate
from slurm_ext.policy.colocation.co_scheduling import PlacementAction
from slurm_ext.policy.colocation.colocation_monitor import CoLocationState
from slurm_ext.slurm.in_memory import MemoryClient
from slurm_ext.slurm.records import JobInfo, NodeInfo

NOW_S = 1000.0


class Harmless:
    """Nobody hurts anybody."""

    def speed(
        self, job: SoloProfile, beside: Sequence[SoloProfile], device: str = "cpu"
    ) -> RelativeSpeed:
        """All of it."""
        return RelativeSpeed(mean=1.0, low=0.95, high=1.0, evidence=SpeedBasis.PAIR)


def job(number: int, **changes: Any) -> JobInfo:
    """A waiting job of one CPU that agreed to share."""
    fields: dict[str, Any] = {
        "job_id": number,
        "name": "x",
        "user_name": "ann",
        "state": "PENDING",
        "cpus": 1,
        "comment": "dlqueue=share",
        "node_count": 1,
        "priority": 1000 - number,
    }
    return JobInfo(**(fields | changes))


class FlagsSlow(SpeedMonitor):
    """A monitor that flags the jobs that the test names."""

    def __init__(self) -> None:
        super().__init__(lambda _: {}, {}, 20.0)
        self.flagged: dict[str, CoLocationState] = {}
        self.floors: dict[str, float] = {}

    def look(self, running: Sequence[Candidate], floors: Any) -> dict[str, CoLocationState]:
        """Those."""
        self.floors = dict(floors)
        return self.flagged


class NotedLog:
    """Keeps the actions."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, str, str]] = []

    def write(self, actions: Any) -> None:
        """Keep them."""
        self.rows += [(one.subject, one.done, one.why) for one in actions]


class Site:
    """A loop over nodes n1, n2, ... of two CPUs."""

    def __init__(self, folder: Path, *jobs: JobInfo, nodes: int = 1, **settings: Any) -> None:
        infos = tuple(
            NodeInfo(name=f"n{n + 1}", cpus=2, mem_mib=1, state="IDLE") for n in range(nodes)
        )
        scripts = {info.job_id: f"script {info.job_id}" for info in jobs}
        self.client = MemoryClient(known_nodes=infos, known_jobs=jobs, known_scripts=scripts)
        self.state = pair_state(folder)
        self.state.path.mkdir()
        values = {"sharing.pairing": "act", "sharing.lease_s": 100} | {
            f"sharing.{key}": value for key, value in settings.items()
        }
        self.monitor, self.log, self.now_s = FlagsSlow(), NotedLog(), NOW_S
        self.memory = PairMemory()
        log: Any = self.log
        self.loop = CoScheduler(
            Settings(values=values),
            self.client,
            self.state,
            self.memory,
            slowdowns=Harmless,
            monitor=self.monitor,
            action_log=log,
            clock=lambda: self.now_s,
        )

    def status(self) -> dict[str, Any]:
        """Status of a round."""
        self.loop.round()
        found = self.state.read_status()
        assert found is not None
        return found


def running(number: int, **changes: Any) -> JobInfo:
    """A job that runs on n1."""
    return job(number, **({"state": "RUNNING", "nodes": "n1", "start_time_s": number} | changes))


def test_the_loops_settings() -> None:
    """For the runner."""
    expected = ("pairing", "sharing.pairing", "sharing.interval_s", "sharing.")
    assert (KIND.name, KIND.mode, KIND.interval, KIND.prefix) == expected
    assert KIND.status_keys == ("mode", "waiting", "running", "left_alone")
    assert (START_S, MOST_STEERED, MOST_READ) == (30.0, 200, 100)


def test_the_folder_of_the_loop(tmp_path: Path) -> None:
    """Its command is named where a second one starts; a dry run writes nothing."""
    state = pair_state(tmp_path)
    expected = (tmp_path / "pairing", "dlqueue control --pairs", True)
    assert (state.path, state.command, state.writes) == expected
    assert not pair_state(tmp_path, writes=False).writes


def test_a_round_reads_100_scripts_and_steers_200_jobs(tmp_path: Path) -> None:
    """The others come in the next rounds; the first by priority, then by id, are steered."""
    jobs = [job(number, priority=9) for number in range(205, 0, -1)]
    site = Site(tmp_path, *jobs, job(999, comment=""))
    shown = site.status()["waiting"]
    assert sorted(id_of(row["job"]) for row in shown) == list(range(1, 201))
    assert len(site.loop._keys) == 100
    site.loop.round()
    assert len(site.loop._keys) == 200
    site.loop.round()
    assert len(site.loop._keys) == 205
    site.client.known_jobs = (job(1, state="COMPLETED"), job(2, restarts=1))
    site.loop.round()
    assert list(site.loop._keys) == ["2.1"]


@pytest.mark.parametrize(("after_s", "given_up"), [(29.0, False), (30.0, False), (30.5, True)])
def test_a_released_job_that_does_not_start_is_slurms(
    tmp_path: Path, after_s: float, given_up: bool
) -> None:
    """After 30 s; the status says so, and its room is for others again."""
    site = Site(tmp_path, job(1))
    site.loop._released = {"1.0": (NOW_S, "n1")}
    site.now_s += after_s
    shown = site.status()
    assert shown["left_alone"] == ({"1.0": "left to Slurm"} if given_up else {})
    assert shown["waiting"] == []
    assert site.client.asked == ([("bind", 1, None), ("delay", (1,), 0)] if given_up else [])
    site.client.known_jobs = ()
    assert site.status()["left_alone"] == {}


@pytest.mark.parametrize(
    ("state", "counts"),
    [("IDLE", True), ("MIXED", True), ("ALLOCATED", True), ("DOWN", False), ("DRAINED", False)],
)
def test_nodes_that_are_up_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: str, counts: bool
) -> None:
    """By their base state."""
    site = Site(tmp_path, job(1))
    site.client.known_nodes = (replace(site.client.known_nodes[0], state=state),)
    seen: list[str] = []
    rules = site.loop._rules

    def note(nodes: Any, now_s: float) -> Any:
        seen.extend(node.name for node in nodes)
        return rules(nodes, now_s)

    monkeypatch.setattr(site.loop, "_rules", note)
    site.loop.round()
    assert seen == (["n1"] if counts else [])


def test_rules_are_the_settings(tmp_path: Path) -> None:
    """Floor, users, how many together; memory of the smallest node; pairs kept apart."""
    site = Site(tmp_path, floor=0.7, across_users=True, most_together=3)
    nodes = [NodeInfo(name=f"n{mib}", cpus=1, mem_mib=mib, state="IDLE") for mib in (4096, 2048)]
    rules = site.loop._rules(nodes, NOW_S)
    assert (rules.floor, rules.same_user, rules.most_together) == (0.7, False, 3)
    assert (rules.mem_bytes, rules.anyway) == (2048 * 2.0**20, True)
    (tmp_path / "b").mkdir()
    assert Site(tmp_path / "b", across_users=False).loop._rules([], NOW_S).same_user


@pytest.mark.parametrize(
    ("sizes", "expected"), [((), None), ((1,), None), ((2,), 2), ((9, 1), None)]
)
def test_memory_of_the_smallest_node(sizes: tuple[int, ...], expected: int | None) -> None:
    """Slurm's 1 MiB stands for a node that has not said."""
    nodes = [NodeInfo(name="n", cpus=1, mem_mib=size) for size in sizes]
    assert room(nodes) == (None if expected is None else expected * 2**20)


def test_memory_that_a_job_needs() -> None:
    """What it requests, or held before, the larger; without a key nothing is known."""
    asked: list[str] = []

    def held(key: str) -> float:
        asked.append(key)
        return 5.0 * 2**20

    def needs(key: str, mem_mib: int | None) -> float | None:
        info = job(1, mem_mib=mem_mib)
        one = candidate(info, key, Settings(), NOW_S)
        jobs = SharingJobs(waiting=(one,), running=(one,), infos={"1.0": info})
        found = with_needs(jobs, held)
        assert found.waiting == found.running
        return found.waiting[0].solo.mem_bytes

    mib = 2.0**20
    assert [needs("k", 4), needs("k", 6), needs("k", None)] == [5 * mib, 6 * mib, 5 * mib]
    assert set(asked) == {"k"}
    assert (needs("", 4), needs("", None)) == (4 * mib, 0)


def test_names_and_words() -> None:
    """A job by its id and restart; a comment by commas, semicolons and blanks."""
    assert name_of(job(7, restarts=2)) == "7.2"
    assert (id_of("7.2"), id_of("7")) == (7, 7)
    assert words(job(1, comment=" a,b;c  d;")) == ["a", "b", "c", "d"]


@pytest.mark.parametrize(
    ("nodes", "seen"), [("n1", 1), ("", 0), ("n[1-2]", 0), ("n1,n2", 0), ("n1]", 1)]
)
def test_jobs_that_others_could_join(nodes: str, seen: int) -> None:
    """Those that run on one node, agreed or not; each is looked up by its name."""
    found = look([running(1, nodes=nodes, comment="")], {"1.0": "k"}, {}, Settings(), NOW_S)
    assert len(found.running) == len(found.infos) == seen
    assert [one.solo.key for one in found.running] == ["k"] * seen


PAIR = ("dlqueue=share", "dlqueue=share dlqueue=requeue")


@pytest.mark.parametrize(
    ("comment", "requeues", "requeued"),
    [(PAIR[0], True, False), (PAIR[1], False, False), (PAIR[1], True, True)],
)
def test_a_slow_pair_in_journal_and_log(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    comment: str,
    requeues: bool,
    requeued: bool,
) -> None:
    """The later job is requeued if it agreed; else they are kept apart the next time."""
    site = Site(tmp_path, running(1), running(2, comment=comment, requeues=requeues))
    site.monitor.flagged = {"1.0": CoLocationState.BELOW}
    kept_apart = site.status()["kept_apart"]
    assert len(kept_apart) == 1
    below = "below its floor for a while"
    done = "requeued" if requeued else "kept apart the next time"
    assert caplog.messages == [f"n1: job 1.0 {below}: {done}"]
    first = ("1", "requeue 2" if requeued else done, f"{below} beside job 2")
    second = ("2", "requeue", f"beside it job 1 was {below} beside job 2")
    assert site.log.rows == ([first, second] if requeued else [first])
    assert site.client.asked == ([("requeue", 2, None)] if requeued else [])
    assert len(site.state.load(dict)["grudges"]) == 1


def test_a_slow_job_that_is_alone_or_did_not_agree_is_left(tmp_path: Path) -> None:
    """Nobody is to be kept apart from a job that shares nothing."""
    site = Site(tmp_path, running(1), running(2, nodes="n2"), running(3, comment=""), nodes=2)
    site.monitor.flagged = dict.fromkeys(("1.0", "3.0"), CoLocationState.BELOW)
    assert site.status()["kept_apart"] == []
    assert site.log.rows == []


def test_a_requeue_that_slurm_refuses_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The round goes on."""

    def refuse(*_: object, **__: object) -> None:
        raise SlurmError("scontrol", 1, "no")

    monkeypatch.setattr(MemoryClient, "requeue", refuse)
    site = Site(tmp_path, running(1), running(2, comment=PAIR[1], requeues=True))
    site.monitor.flagged = {"1.0": CoLocationState.BELOW}
    site.loop.round()
    assert caplog.messages[-1] == "job 2.0 could not be requeued: scontrol (exit 1): no"


def test_floors_of_running_jobs(tmp_path: Path) -> None:
    """The site's for each of them."""
    site = Site(tmp_path, running(1), floor=0.85)
    site.loop.round()
    assert site.monitor.floors == {"1.0": 0.85}


def test_a_hold_that_slurm_refuses_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Freeing one that has gone is no warning: Slurm's clock ends it."""
    caplog.set_level(logging.INFO)

    def refuse(*_: object) -> None:
        raise SlurmError("scontrol", 1, "no")

    monkeypatch.setattr(MemoryClient, "delay", refuse)
    site = Site(tmp_path)
    site.loop._holds._delay(["1.0"], [])
    site.loop._holds.free("2.0", None)
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("WARNING", "not every job could be put off: scontrol (exit 1): no"),
        ("INFO", "job 2.0: scontrol (exit 1): no"),
    ]


def test_the_memory_on_the_disk() -> None:
    """The keys that earlier versions wrote; figures come back as numbers."""
    memory = PairMemory(
        holds={"1.0": BeginTimeHold(until_s=5.0, put_off_s=2.0, node="n1")},
        solo_rates={"k": 3.0},
        held_bytes={"k": 4.0},
    )
    body = memory.as_json()
    assert body == {
        "leases": {"1.0": {"until_s": 5.0, "put_off_s": 2.0, "node": "n1"}},
        "grudges": [],
        "solo_rates": {"k": 3.0},
        "held_bytes": {"k": 4.0},
    }
    assert PairMemory.from_json(body) == memory
    del body["held_bytes"]
    assert PairMemory.from_json(body).held_bytes == {}
    assert PairMemory.from_json({}) == PairMemory()


def test_the_newest_of_what_is_remembered_stays() -> None:
    """10,000 keys; one that is seen again is the newest."""
    assert (MOST_KNOWN, NEWEST) == (10_000, 0.3)
    values = {"a": 1.0, "b": 2.0}
    remember(values, "a", 3.0, most=2)
    assert list(values.items()) == [("b", 2.0), ("a", 3.0)]
    remember(values, "c", 4.0, most=2)
    assert list(values.items()) == [("a", 3.0), ("c", 4.0)]


def test_actions_in_the_journal() -> None:
    """Times in ms, the hold in whole seconds, the mode as it is."""
    step = PlacementAction(job="7.1", start=False, free=False, place=None, reason="no room")
    action = moved(step, 12.34567, "shadow", 99.6)
    assert (action.at_s, action.mode, action.subject) == (12.346, "shadow", "7")
    assert (action.done, action.why) == ("StartTime=now+100", "no room")
    (apart,) = parted("1.0", None, CoLocationState.BELOW, ["3.0", "1.0", "2.1"], 1.0, "act")
    assert apart.why == "below its floor for a while beside job 3, 2"
    body = status(12.34567, "act", [], [{"job": "a"}], {}, [frozenset("zy"), frozenset("ab")])
    assert body == {
        "t_s": 12.346,
        "mode": "act",
        "waiting": [],
        "running": [{"job": "a"}],
        "left_alone": {},
        "kept_apart": [["a", "b"], ["y", "z"]],
    }
