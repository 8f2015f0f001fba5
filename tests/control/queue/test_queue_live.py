"""The live queue on a cluster that is nothing but records: who gives way, and who is left alone."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_ext.control.loops import runner
from slurm_ext.control.loops.loop_state import cluster_state
from slurm_ext.control.queue.jobs import Waiting
from slurm_ext.control.queue.order import in_order, longest_wait
from slurm_ext.control.queue.queue_loop import KIND
from slurm_ext.control.queue.runtime_estimates import RuntimeEstimates, StickyEstimates
from slurm_ext.core.settings.document import Settings
from slurm_ext.model.duration.submission_batch import SubmissionBatches
from slurm_ext.policy.queue.ageing import LongestWait
from slurm_ext.policy.queue.order import rule_of
from slurm_ext.simulate.queue.cluster import Cluster
from slurm_ext.simulate.queue.engine import replay
from slurm_ext.slurm import JobInfo, MemoryClient
from tests.simulate.traces import trace_of

HOUR = 60.0


def job(job_id: int, minutes: float = HOUR, **changes: Any) -> JobInfo:
    """A job of one GPU that waits for its turn, in the order of ids."""
    plain: dict[str, Any] = {
        "job_id": job_id,
        "user_name": "ann",
        "name": f"j{job_id}",
        "state": "PENDING",
        "partition": "gpu",
        "submit_time_s": 1000 + job_id,
        "time_limit_minutes": minutes,
        "gpus": 1,
        "cpus": 4,
        "priority": 5000,
        "reason": "Priority",
    }
    return JobInfo(**{**plain, **changes})


def cluster(*jobs: JobInfo, kind: str = "priority/multifactor") -> MemoryClient:
    """It does what it is asked."""
    return MemoryClient(obeys=True, known_jobs=jobs, known_config={"PriorityType": kind})


def settings_of(tmp_path: Path, mode: str = "act", **more: Any) -> Settings:
    """The queue loop's, with further ones by dotted key."""
    values: dict[str, Any] = {"queue.mode": mode, "paths.kill_file": str(tmp_path / "off")}
    return Settings(values={**values, "paths.state_dir": str(tmp_path), **more})


def once(tmp_path: Path, client: MemoryClient, **more: Any) -> dict[str, Any]:
    """One round of the loop; its status."""
    return runner.once(KIND, settings_of(tmp_path, **more), client)


def nices(client: MemoryClient) -> dict[int, int]:
    """As they are now."""
    return {one.job_id: one.nice for one in client.known_jobs if one.nice}


def in_slurms_order(client: MemoryClient) -> list[int]:
    """Ids as Slurm would take them."""
    return [
        j.job_id for j in sorted(client.known_jobs, key=lambda j: (-(j.priority or 0), j.job_id))
    ]


def test_short_jobs_go_first_and_only_the_long_one_is_changed(tmp_path: Path) -> None:
    """It is told what it waits for; a second round finds nothing to do."""
    client = cluster(job(1, 600), job(2, 10), job(3, 60))
    (move,) = once(tmp_path, client)["moves"]
    assert in_slurms_order(client) == [2, 3, 1]
    assert (move["subject"], move["outcome"]) == ("1", "done")
    assert "10 GPU-hours (by limit): it goes after job 3, place 3" in move["why"]
    asked = list(client.asked)
    assert once(tmp_path, client)["moves"] == []
    assert client.asked == asked


def test_what_was_set_is_put_back(tmp_path: Path) -> None:
    """Every nice that is still ours; a running job's, and one that a user changed, stay."""
    client = cluster(*(job(n, 600 - n) for n in range(1, 5)))
    once(tmp_path, client)
    assert set(nices(client)) == {1, 2, 3}
    client.set_nice(1, 77)
    client.known_jobs = tuple(
        replace(one, state="RUNNING") if one.job_id == 2 else one for one in client.known_jobs
    )
    second = nices(client)[2]
    count = runner.restore(KIND, settings_of(tmp_path, "off"), client)
    assert count == 1
    assert nices(client) == {1: 77, 2: second}


def test_whose_nice_somebody_changed_is_left_alone_from_then_on(tmp_path: Path) -> None:
    """Also one whose priority was set by hand, of which Slurm takes no nice."""
    client = cluster(job(1, 600), job(2, 10))
    once(tmp_path, client)
    client.set_nice(1, 0)
    for _ in range(2):
        status = once(tmp_path, client)
        assert status["moves"] == []
        assert "set by somebody since" in status["details"]["left_alone"]["1"]


LEFT: Mapping[str, tuple[dict[str, Any], str]] = {
    "held": ({"priority": None, "reason": "JobHeldUser"}, "it is held"),
    "nice": ({"nice": 30}, "its user gave it a nice of 30"),
    "depends": ({"dependency": "afterok:9", "reason": "Dependency"}, "it waits for other jobs"),
    "later": ({"eligible_time_s": 1 << 40, "reason": "BeginTime"}, "begin time"),
    "reserved": ({"reservation": "exam"}, "the reservation exam"),
    "het": ({"het_job_id": 1}, "heterogeneous"),
    "off": ({"comment": "x,dlqueue=off"}, "it opted out"),
    "limit": ({"reason": "QOSMaxJobsPerUserLimit"}, "QOSMaxJobsPerUserLimit"),
    "partition": ({"partition": "cpu"}, "queue.partitions"),
    "user": ({"user_name": "eve"}, "queue.users"),
    "account": ({"account": "guests"}, "queue.accounts"),
}


@pytest.mark.parametrize("case", LEFT)
def test_what_users_and_sites_decided_is_kept(tmp_path: Path, case: str) -> None:
    """Such a job is neither moved nor does anybody give way to it; its reason is told."""
    changes, why = LEFT[case]
    client = cluster(job(1, 600), job(2, 10, **changes))
    chosen = {"queue.partitions": ["gpu"], "queue.users": ["ann"], "queue.accounts": [""]}
    status = once(tmp_path, client, **chosen)
    assert status["moves"] == []
    assert why in status["details"]["left_alone"]["2"]


def test_other_partitions_and_qos_are_other_queues(tmp_path: Path) -> None:
    """A long job of a better QOS does not give way to a short one of a lesser."""
    client = cluster(job(1, 600, qos="high"), job(2, 10, qos="low"), job(3, 5, partition="b"))
    assert once(tmp_path, client)["moves"] == []


def test_an_array_gives_way_as_one(tmp_path: Path) -> None:
    """One update of the array's id, for all tasks that wait, also those that stand alone."""
    task: dict[str, Any] = {"array_job_id": 1, "minutes": 600, "name": "sweep"}
    client = cluster(job(1, array_tasks="4-9", **task), job(7, array_task_id=3, **task), job(8, 10))
    once(tmp_path, client)
    assert [(what, who) for what, who, _ in client.asked] == [("nice", 1)]


def test_updates_of_a_round_are_bounded(tmp_path: Path) -> None:
    """The rest follows in the next."""
    client = cluster(*(job(n, 600 - n) for n in range(1, 9)))
    for _ in range(4):
        before = len(client.asked)
        once(tmp_path, client, **{"queue.most_updates": 2})
        assert len(client.asked) - before <= 2
    assert in_slurms_order(client) == list(range(8, 0, -1))


def test_without_multifactor_priorities_nothing_is_done(tmp_path: Path) -> None:
    """There a nice would move a job behind all others; the status says so."""
    client = cluster(job(1, 600), job(2, 10), kind="priority/basic")
    status = once(tmp_path, client)
    assert "PriorityType is not priority/multifactor" in status["details"]["reason"]
    assert client.asked == []


def test_shadow_writes_and_changes_nothing(tmp_path: Path) -> None:
    """The same moves as in act."""
    client = cluster(job(1, 600), job(2, 10))
    status = once(tmp_path, client, **{"queue.mode": "shadow"})
    assert [one["done"] for one in status["moves"]] == ["nice=10"]
    assert (client.asked, cluster_state(tmp_path, "queue").load(dict)) == ([], {})


def test_what_is_set_is_on_the_disk_before_slurm_hears_of_it(tmp_path: Path) -> None:
    """Whoever dies in between leaves enough to put back either value."""

    class Dies(MemoryClient):
        def set_nice(self, job_id: int, nice: int) -> None:
            raise KeyboardInterrupt

    client = Dies(
        obeys=True,
        known_jobs=(job(1, 600), job(2, 10)),
        known_config={"PriorityType": "priority/multifactor"},
    )
    with pytest.raises(KeyboardInterrupt):
        once(tmp_path, client)
    assert cluster_state(tmp_path, "queue").load(dict)["nices"]["1"] == [0, 10]


LAST_S = 1e9  # all wait for one job that long
ROWS = st.lists(
    st.tuples(st.integers(1, 5000), st.integers(1, 3000), st.sampled_from([1, 2, 4, 8])),
    min_size=1,
    max_size=9,
)


@given(rows=ROWS, whole=st.booleans())
@settings(max_examples=40, deadline=None)
def test_replay_and_live_take_the_same_order(
    rows: list[tuple[int, int, int]], whole: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Behind one job that has all GPUs, the rest starts in replay as the live loop orders it.

    Both are told the true run time: the replay as an oracle, the loop by time limits.
    """
    rows = sorted((submit, minutes, 8 if whole else gpus) for submit, minutes, gpus in rows)
    trace = trace_of([(0, LAST_S, 8), *((s, m * 60, g) for s, m, g in rows)])
    outcome = replay(trace, Cluster(nodes=1, gpus_per_node=8), rule_of("shortest+ageing"))
    longest = LongestWait().seen(LAST_S - rows[0][0], LAST_S)
    times = RuntimeEstimates(tmp_path_factory.getbasetemp(), busy_timeout_ms=100)
    waiting = [
        Waiting(job_id=n, info=job(n, m, submit_time_s=s, gpus=g))
        for n, (s, m, g) in enumerate(rows, 1)
    ]
    order = [one.waiting.job_id for one in in_order(waiting, "qssf+ageing", times, LAST_S, longest)]
    assert (np.diff(outcome.start_s[order]) >= (60 if whole else 0)).all()


class Both:
    """Foretells a replay by siblings, and asks the live loop whom it would take first.

    One job at a time has all GPUs: whoever the replay starts must be the loop's first.
    """

    def __init__(self, rows: list[tuple[int, int, int, int]], state_dir: Path) -> None:
        self.rows = rows
        self.states = ["" for _ in rows]
        self.since = [0.0 for _ in rows]
        self.siblings = SubmissionBatches()
        self.times = RuntimeEstimates(state_dir, busy_timeout_ms=100)
        self.live = StickyEstimates(self.times)
        self.longest = LongestWait()
        self.first: int | None = None

    def submitted(self, jobs: Sequence[int], now_s: float) -> Sequence[float]:
        """By its limit, and its siblings."""
        for number in jobs:
            self.states[number] = "PENDING"
            submit_s, user, limit, _ = self.rows[number]
            self.siblings.submitted(number, user, submit_s, limit * 60.0)
        return [min(self.siblings.predict(one, now_s)[0], self._limit_s(one)) for one in jobs]

    def started(self, number: int, now_s: float) -> None:
        """As the loop said."""
        assert number == self.first
        self.states[number], self.since[number] = "RUNNING", now_s
        self.siblings.started(number, self.rows[number][1], self.rows[number][0], now_s)

    def ended(self, number: int, now_s: float) -> None:
        """The loop hears of it from its history."""
        submit_s, user, _, lasted_s = self.rows[number]
        assert now_s == self.since[number] + lasted_s
        self.states[number] = "COMPLETED"
        self.siblings.ended(number, user, submit_s, lasted_s)
        self.times.siblings.ended(number, (str(user), "j", 8), submit_s, lasted_s)

    def revised(self, now_s: float) -> list[tuple[int, float]]:
        """A round of the loop, whenever the replay looks."""
        jobs = [self._info(number) for number, state in enumerate(self.states) if state]
        self.live.see(jobs)
        waiting = [Waiting(job_id=one.job_id, info=one) for one in jobs if one.state == "PENDING"]
        self.longest = longest_wait(self.longest, {("", "", True): waiting}, now_s)
        order = in_order(waiting, "qssf+ageing", self.live, now_s, self.longest)
        self.first = order[0].waiting.job_id if order else None
        anew = ((int(str(one)), told_s) for one, told_s in self.siblings.changed(now_s, ages=True))
        return [(one, min(told_s, self._limit_s(one))) for one, told_s in anew]

    def _limit_s(self, number: int) -> float:
        return self.rows[number][2] * 60.0

    def _info(self, number: int) -> JobInfo:
        submit_s, user, limit, _ = self.rows[number]
        told: dict[str, Any] = {"user_name": str(user), "name": "j", "state": self.states[number]}
        times = {"submit_time_s": submit_s, "start_time_s": int(self.since[number])}
        return job(number, limit, gpus=8, **told, **times)


BATCHES = st.lists(
    st.tuples(
        st.integers(1, 400), st.integers(1, 3), st.integers(100, 5000), st.integers(1, 90_000)
    ),
    min_size=1,
    max_size=12,
)


@given(rows=BATCHES)
@settings(max_examples=40, deadline=None)
def test_replay_and_live_learn_the_same_of_siblings(
    rows: list[tuple[int, int, int, int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Start by start, while siblings run and end: of (submission, user, limit, run time)."""
    rows = sorted((s, user, limit, min(lasts, limit * 60)) for s, user, limit, lasts in rows)
    trace = trace_of([(float(s), float(lasts), 8) for s, _, _, lasts in rows])
    trace = replace(trace, limit_s=np.array([limit * 60.0 for _, _, limit, _ in rows]))
    both = Both(rows, tmp_path_factory.getbasetemp())
    cluster = Cluster(nodes=1, gpus_per_node=8)
    replay(trace, cluster, rule_of("qssf+backfill+ageing"), predictor=both)
    assert both.states == ["COMPLETED"] * len(rows)
