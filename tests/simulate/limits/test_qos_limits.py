"""Limits of QOS in a replay: an example by hand of each, and laws that hold for any."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_ext.policy.queue.order import rule_of
from slurm_ext.simulate.limits.limited_trace import LimitedTrace
from slurm_ext.simulate.limits.qos import QosTable
from slurm_ext.simulate.limits.qos_values import qos_of
from slurm_ext.simulate.limits.site_limits import Limits, with_usual
from slurm_ext.simulate.planning.scheduling import Scheduling, exact
from slurm_ext.simulate.queue.cluster import Cluster
from slurm_ext.simulate.queue.engine import replay
from slurm_ext.simulate.replay_result import ReplayResult
from slurm_ext.simulate.trace.columns import Trace
from tests.simulate.traces import Job, trace_of

NODE = Cluster(nodes=1, gpus_per_node=8)


def limits(
    values: Mapping[str, Mapping[str, str]], partitions: Mapping[str, str] | None = None
) -> Limits:
    """QOS of sacctmgr's columns."""
    table = QosTable(source="qos", qos={name: qos_of(name, row) for name, row in values.items()})
    return Limits(table=table, of_partition=partitions or {})


def site_trace(rows: Sequence[Job], users: str, **columns: str) -> Trace:
    """A trace whose jobs have the users of a word's letters; accounts and QOS likewise."""
    trace = trace_of(rows)
    words = {"user": users, **columns}
    names = {"user": "users", "account": "accounts", "qos": "qoses", "vc": "vcs"}
    changed: dict[str, Any] = {}
    for column, word in words.items():
        letters = tuple(dict.fromkeys(word))
        changed[column] = np.array([letters.index(letter) for letter in word])
        changed[names[column]] = letters
    return replace(trace, **changed)


def replayed(trace: Trace, some: Limits, policy: str = "fifo") -> ReplayResult:
    """A replay on one node of eight GPUs."""
    trace = with_usual(trace, some)
    return replay(trace, NODE, rule_of(policy), limits=some)


ROWS = [(0.0, 10.0, 2), (0.0, 10.0, 2), (0.0, 10.0, 1), (0.0, 10.0, 1)]


@pytest.mark.parametrize("policy", ["fifo", "fifo+backfill"])
@pytest.mark.parametrize(
    ("limit", "users", "starts"),
    [
        ({"GrpTRES": "gres/gpu=3"}, "aabb", [0, 10, 0, 10]),
        ({"GrpJobs": "2"}, "aabb", [0, 0, 10, 10]),
        ({"MaxTRESPU": "gres/gpu=2"}, "aabb", [0, 10, 0, 0]),
        ({"MaxTRESPerUser": "cpu=9,gres/gpu=3"}, "aaab", [0, 10, 0, 0]),
        ({"MaxJobsPU": "1"}, "aaab", [0, 10, 20, 0]),
        ({"MaxJobsPU": "1", "GrpJobs": "1"}, "abab", [0, 10, 20, 30]),
        ({"Priority": "9"}, "aaaa", [0, 0, 0, 0]),
    ],
)
def test_who_is_at_a_limit_waits_and_keeps_nobody(
    limit: dict[str, str], users: str, starts: list[float], policy: str
) -> None:
    """GPUs are free all the time; a job at a limit waits, and those behind it go before."""
    outcome = replayed(site_trace(ROWS, users), limits({"normal": limit}), policy)
    assert outcome.start_s.tolist() == starts
    assert not outcome.unfinished


def test_limits_of_accounts_count_over_their_users() -> None:
    """Of one account two jobs run at a time, whoever has submitted them."""
    trace = site_trace(ROWS, "abab", account="xxxy")
    assert replayed(trace, limits({"normal": {"MaxJobsPA": "2"}})).start_s.tolist() == [0, 0, 10, 0]


def test_submissions_above_a_limit_are_refused() -> None:
    """The third that a user would have in the queue is refused, the next one after an end not."""
    rows = [*ROWS[:3], (10.0, 5.0, 1)]
    outcome = replayed(site_trace(rows, "aaaa"), limits({"normal": {"MaxSubmitPU": "2"}}))
    assert outcome.unfinished == {2: "refused: MaxSubmitPU=2 of QOS normal"}
    assert np.isnan(outcome.start_s[2])
    assert outcome.start_s[3] == 10
    assert outcome.figures()["unfinished"] == 1
    assert outcome.figures()["jct_mean_s"] == pytest.approx((10 + 10 + 5) / 3)


@pytest.mark.parametrize(
    ("limit", "left", "why"),
    [
        ({"MaxTRES": "gres/gpu=1"}, 2, "would wait for ever: MaxTRES=gres/gpu=1 of QOS normal"),
        ({"MinTRES": "gres/gpu=2", "Flags": "DenyOnLimit"}, 2, "refused: MinTRES=gres/gpu=2"),
        ({"MaxTRESPU": "gres/gpu=1"}, 2, "would wait for ever: MaxTRESPU=gres/gpu=1"),
        ({"MaxWall": "00:02:00", "Flags": "DenyOnLimit"}, 3, "refused: MaxWall=2 minutes"),
    ],
)
def test_who_would_never_start_is_left_out_and_named(
    limit: dict[str, str], left: int, why: str
) -> None:
    """A job above a limit of one job, or alone above one of a sum."""
    trace = replace(site_trace(ROWS, "aaaa"), limit_s=np.array([120.0, 121.0, np.nan, 60.0]))
    some = limits({"normal": limit})
    within = LimitedTrace(with_usual(trace, some), some).within()
    assert len(within) == left
    ((told, count),) = within.repairs.items()
    assert told.startswith(why)
    assert "(job " in told
    assert count == 4 - left


def test_a_partitions_qos_goes_before_the_jobs_own() -> None:
    """Its limit counts where both set one, unless the job's QOS has the flag OverPartQOS."""
    trace = site_trace(ROWS, "aaaa", qos="qqqq", vc="pppp")
    for flags, starts in (("", [0, 0, 10, 10]), ("OverPartQOS", [0, 10, 20, 30])):
        some = limits(
            {"q": {"MaxJobsPU": "1", "Flags": flags}, "part": {"MaxJobsPU": "2"}}, {"p": "part"}
        )
        assert replayed(trace, some).start_s.tolist() == starts


def test_two_qos_do_not_count_each_others_jobs() -> None:
    """A user's jobs of another QOS are not of its sum."""
    trace = site_trace(ROWS, "aaaa", qos="qrqr")
    some = limits({"q": {"MaxJobsPU": "1"}, "r": {}})
    assert replayed(trace, some).start_s.tolist() == [0, 0, 10, 0]


LOOKS = {
    "exact": exact(None, 500),
    "shallow": exact(1, 2),
    "Slurm's": Scheduling(interval_s=7, resolution_s=5, step_s=3),
}
QOS = {
    "q": {"MaxJobsPU": "2", "GrpTRES": "gres/gpu=9", "MaxSubmitPU": "4"},
    "r": {"MaxTRESPU": "gres/gpu=4", "GrpJobs": "3"},
    "s": {},
}


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    """Up to 16 jobs of three users in three QOS."""
    job = st.tuples(st.integers(0, 20).map(float), st.integers(1, 30).map(float), st.integers(1, 4))
    rows = draw(st.lists(job, min_size=1, max_size=16))
    words = {
        name: "".join(
            draw(st.lists(st.sampled_from(letters), min_size=len(rows), max_size=len(rows)))
        )
        for name, letters in (("users", "abc"), ("qos", "qrs"))
    }
    return site_trace(rows, words["users"], qos=words["qos"])


def sums(trace: Trace, outcome: ReplayResult) -> list[tuple[str, int, int]]:
    """At each start: the name of a sum, what runs then, and the most that may."""
    found = []
    started = np.flatnonzero(~np.isnan(outcome.start_s))
    for place in started:
        now_s = outcome.start_s[place]
        runs = [
            other for other in started if outcome.start_s[other] <= now_s < outcome.end_s[other]
        ]
        of = {
            name: [job for job in runs if trace.qoses[trace.qos[job]] == name]
            for name in trace.qoses
        }
        user = trace.user[place]
        mine = {name: [job for job in jobs if trace.user[job] == user] for name, jobs in of.items()}
        found += [
            ("MaxJobsPU", len(mine.get("q", ())), 2),
            ("GrpTRES", int(sum(trace.gpus[job] for job in of.get("q", ()))), 9),
            ("MaxTRESPU", int(sum(trace.gpus[job] for job in mine.get("r", ()))), 4),
            ("GrpJobs", len(of.get("r", ())), 3),
        ]
    return found


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("policy", ["fifo", "fewest+backfill", "shortest+backfill"])
@given(trace=traces())
@settings(max_examples=25, deadline=None)
def test_no_sum_is_ever_above_its_limit(trace: Trace, policy: str, look: str) -> None:
    """Every job starts once and ends once or is refused; nobody else is left waiting."""
    some = limits(QOS)
    trace = with_usual(trace, some)
    outcome = replay(
        trace,
        Cluster(nodes=4, gpus_per_node=4),
        rule_of(policy),
        scheduling=LOOKS[look],
        limits=some,
    )
    assert all(value <= most for _, value, most in sums(trace, outcome))
    ran = np.isfinite(outcome.start_s)
    assert outcome.end_s[ran] == pytest.approx((outcome.start_s + outcome.duration_s)[ran])
    assert set(np.flatnonzero(~ran)) == set(outcome.unfinished)
    assert all(why.startswith("refused: MaxSubmitPU=4") for why in outcome.unfinished.values())


@pytest.mark.parametrize("policy", ["fifo", "fewest+backfill"])
@given(trace=traces())
@settings(max_examples=25, deadline=None)
def test_limits_that_bind_nobody_change_nothing(trace: Trace, policy: str) -> None:
    """With limits that no sum comes near, every job starts when it does without any."""
    wide = {name: {"MaxJobsPU": "99", "GrpTRES": "gres/gpu=999"} for name in "qrs"}
    some, cluster = limits(wide), Cluster(nodes=3, gpus_per_node=4)
    trace = with_usual(trace, some)
    for look in (exact(1, 3), exact(None, 500)):
        free, kept = (
            replay(trace, cluster, rule_of(policy), scheduling=look, limits=one)
            for one in (None, some)
        )
        assert kept.start_s.tolist() == free.start_s.tolist()


@given(trace=traces(), policy=st.sampled_from(["fifo", "fewest+backfill", "shortest+backfill"]))
@settings(max_examples=60, deadline=None)
def test_nobody_waits_while_room_and_limits_allow(trace: Trace, policy: str) -> None:
    """Where GPUs never lack, a job starts with its submission or with an end of another one."""
    some = limits(QOS)
    trace = with_usual(trace, some)
    for depth in (1, 500):
        outcome = replay(
            trace, Cluster(nodes=16, gpus_per_node=4), rule_of(policy), depth=depth, limits=some
        )
        ends = set(outcome.end_s.tolist())
        for place in np.flatnonzero(np.isfinite(outcome.start_s)):
            start_s = outcome.start_s[place]
            assert start_s == trace.submit_s[place] or start_s in ends
