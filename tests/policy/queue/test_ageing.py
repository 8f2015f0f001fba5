"""Ageing: how far a small job goes ahead, what the lead follows, and that nobody starves."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_ext.policy.queue.ageing import (
    HALVES_S,
    LEAD_SIZES,
    LEADS,
    LEAST_LEAD_S,
    MOST_LEAD_S,
    STEP,
    LongestWait,
    aged,
)
from slurm_ext.policy.queue.order import QueuedJobs, rule_of
from slurm_ext.simulate.queue.cluster import Cluster
from slurm_ext.simulate.queue.engine import replay
from tests.simulate.traces import trace_of

DAY = 86400.0


def time_of(size: float, lead_s: float = 1000.0) -> float:
    """Key of a job submitted at 7 s."""
    return float(aged(np.array([7.0]), np.array([size]), lead_s)[0])


@pytest.mark.parametrize(
    ("size", "part"), [(0.0, 0.0), (60.0, 0.0), (1e6, 1.0), (1e7, 1.0), ((60 * 1e6) ** 0.5, 0.5)]
)
def test_a_handicap_grows_by_ratios_between_two_sizes(size: float, part: float) -> None:
    """None up to the first size, all of the lead from the second on."""
    assert time_of(size) == pytest.approx(7.0 + part * 1000.0)
    assert LEAD_SIZES == (60.0, 1e6)


@pytest.mark.parametrize("size", [600.0, 1e4, 1e5])
def test_a_handicap_goes_by_the_ratio_of_sizes(size: float) -> None:
    """Ten times the size lets the smaller wait the same time less, however large both are."""
    assert time_of(10 * size) - time_of(size) == pytest.approx(time_of(6000) - time_of(600))


@given(
    sizes=st.lists(st.floats(1.0, 1e7), min_size=2, max_size=20),
    gaps=st.lists(st.floats(0.0, 1e6), min_size=20, max_size=20),
    lead_s=st.floats(LEAST_LEAD_S, MOST_LEAD_S),
)
def test_ageing_bounds_overtaking(sizes: list[float], gaps: list[float], lead_s: float) -> None:
    """However small a job is, it never goes before one that was submitted a lead earlier."""
    submit_s = np.cumsum(gaps[: len(sizes)])
    jobs = QueuedJobs(
        submit_s=submit_s, gpus=np.ones(len(sizes), dtype=int), estimate_s=np.array(sizes)
    )
    place = np.argsort(rule_of("qssf+backfill+ageing").order(jobs, lead_s=lead_s))
    later = submit_s[None, :] > submit_s[:, None] + lead_s
    assert (place[None, :] > place[:, None])[later].all()


def test_the_lead_follows_the_longest_wait() -> None:
    """In steps, between two bounds; shorter waits change nothing."""
    assert LongestWait().lead_s(5.0) == LEAST_LEAD_S
    seen = LongestWait().seen(DAY, 2 * DAY)
    assert LEADS * DAY / STEP < seen.lead_s(2 * DAY) <= LEADS * DAY * (1 + 1e-9)
    assert seen.seen(0.9 * DAY, 2 * DAY) == seen
    assert MOST_LEAD_S / STEP < seen.seen(900 * DAY, 900 * DAY).lead_s(900 * DAY) <= MOST_LEAD_S


def test_a_longest_wait_is_forgotten_by_halves() -> None:
    """A month later it counts half, and a shorter one replaces it; a small step changes nothing."""
    seen = LongestWait(8 * DAY, 100.0)
    later_s = 100.0 + HALVES_S
    assert seen.lead_s(later_s) == LongestWait(4 * DAY, later_s).lead_s(later_s)
    assert seen.seen(4.1 * DAY, later_s) == LongestWait(4.1 * DAY, later_s)
    assert seen.lead_s(50.0) == seen.lead_s(100.0)


def test_a_wait_of_a_clock_that_was_ahead_counts_for_nothing() -> None:
    """Two months ahead for one round, a wait of an hour was one of two months."""
    wrong = LongestWait(3600.0, 0.0).seen(60 * DAY, 60 * DAY)
    assert wrong.lead_s(100.0) == LongestWait().lead_s(100.0)
    assert wrong.seen(7200.0, 100.0) == LongestWait(7200.0, 100.0)


ROWS = st.lists(
    st.tuples(st.integers(0, 90), st.integers(1, 40), st.floats(1.0, 1e8)), min_size=1, max_size=30
)


@given(rows=ROWS, policy=st.sampled_from(["qssf+ageing", "qssf+backfill+ageing"]))
@settings(max_examples=60, deadline=None)
def test_the_oldest_job_ends_in_bounded_time(
    rows: list[tuple[int, int, float]], policy: str
) -> None:
    """A job waits for those submitted before it, or within the most lead after it, and no others.

    So its end has a bound, whatever is predicted of it and however much comes later.
    """
    rows = sorted(rows)
    trace = trace_of([(day * DAY, days * DAY, 1) for day, days, _ in rows])
    trace = replace(trace, estimate_s=np.array([guess for *_, guess in rows]))
    outcome = replay(trace, Cluster(nodes=1, gpus_per_node=1), rule_of(policy))
    for job, submit_s in enumerate(trace.submit_s):
        may_pass = trace.submit_s <= submit_s + MOST_LEAD_S
        passed = outcome.start_s < outcome.start_s[job]
        assert not (passed & ~may_pass).any()
        assert outcome.end_s[job] <= submit_s + trace.duration_s[may_pass].sum()


def test_a_stream_of_short_jobs_does_not_hold_up_a_long_one_for_ever() -> None:
    """At full load without ageing it comes last; with ageing it comes when others still wait."""
    hours = [(hour * 3600.0, 3600.0, 1) for hour in range(24 * 60)]
    trace = trace_of([(-1.0, 3600.0, 1), (-0.5, 7 * DAY, 1), *hours])
    trace = replace(trace, submit_s=trace.submit_s + 1.0)
    one = Cluster(nodes=1, gpus_per_node=1)
    starts = {
        policy: float(replay(trace, one, rule_of(policy)).start_s[1])
        for policy in ("shortest", "shortest+ageing")
    }
    assert starts["shortest"] == 60 * DAY + 3600.0
    assert starts["shortest+ageing"] <= MOST_LEAD_S + DAY
