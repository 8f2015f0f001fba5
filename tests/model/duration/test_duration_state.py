"""What is remembered of durations: only what had ended, by key, for ever in the same size."""

from math import exp, isnan, log

import numpy as np
import pytest

from slurm_ext.model.duration.adaptive_bounds import SPARE, AdaptiveBounds
from slurm_ext.model.duration.key_statistics import RECENT, STATISTICS
from slurm_ext.model.duration.state import DurationState, FeaturePlan, JobFeatures

PLAN = FeaturePlan(levels=(("user", "exe"), ("user",), ()), numbers=("log_gpus",))


def asked(submit_s: float, user: str = "ann", exe: str = "a") -> JobFeatures:
    """A submission of one GPU."""
    return JobFeatures(submit_s, {"user": user, "exe": exe}, {"log_gpus": 0.0})


def told(state: DurationState, submission: JobFeatures) -> dict[str, float]:
    """Features by name."""
    return dict(zip(PLAN.features, state.row(submission), strict=True))


def test_a_job_teaches_only_once_it_ended() -> None:
    """While it runs, its key knows that it runs and how old it is, and nothing of its length."""
    state = DurationState(PLAN)
    state.submitted(1, asked(0.0))
    running = told(state, asked(50.0))
    assert running["user:running"] == pytest.approx(log(2))
    assert running["user:oldest"] == pytest.approx(log(51))
    assert running["user:recent"] == pytest.approx(log(50))
    assert isnan(running["user:last"])
    assert isnan(running["history"])
    state.ended(1, 60.0, 60.0)
    ended = told(state, asked(70.0))
    assert ended["user:last"] == ended["history"] == pytest.approx(log(60))
    assert ended["user:running"] == 0


def test_who_is_not_known_is_told_by_the_wider_key() -> None:
    """A new executable has its user's history, a new user everybody's."""
    state = DurationState(PLAN)
    for job in range(4):
        state.submitted(job, asked(float(job)))
        state.ended(job, job + 0.5, 100.0)
    assert told(state, asked(10.0, exe="new"))["known_level"] == 1
    new = told(state, asked(10.0, user="bob"))
    assert new["known_level"] == 2
    assert new["history"] == pytest.approx(log(100))


def test_a_key_with_many_runs_outweighs_wider_ones() -> None:
    """Ten runs of one script move its mean nearly all the way from everybody's."""
    state = DurationState(PLAN)
    for job in range(20):
        user = "ann" if job % 2 else "bob"
        state.submitted(job, asked(float(job), user))
        state.ended(job, job + 0.5, 10.0 if user == "ann" else 10000.0)
    assert told(state, asked(30.0))["history"] < log(20)


def test_what_nobody_knows_teaches_nothing() -> None:
    """A job whose end nobody saw is forgotten; one that was never submitted is nobody's."""
    state = DurationState(PLAN)
    state.submitted(1, asked(0.0))
    state.submitted(1, asked(5.0))
    state.ended(1, 9.0, None)
    state.ended(2, 9.0, 4.0)
    seen = told(state, asked(10.0))
    assert seen["all:running"] == seen["all:ended"] == 0


def test_features_have_one_name_each() -> None:
    """So many numbers as names, no name twice, whatever is known."""
    names = PLAN.features
    assert len(set(names)) == len(names) == len(DurationState(PLAN).row(asked(0.0)))
    assert len(names) == len(PLAN.levels) * len(STATISTICS) + 5


def test_memory_does_not_grow_with_ended_jobs() -> None:
    """A thousand ended jobs leave the last few in a key, not all."""
    state = DurationState(PLAN)
    for job in range(1000):
        state.submitted(job, asked(float(job)))
        state.ended(job, job + 0.5, 0.5)
    assert not state._jobs
    (memory,) = state._memories[2].values()
    assert len(memory._recent) == RECENT
    assert not memory._running


def test_bounds_learn_to_hold_as_often_as_they_say() -> None:
    """Bounds that start at nothing hold nine of ten jobs after a while, in every bin apart."""
    noise = np.random.default_rng(0).normal(size=6000)
    bounds, inside, now_s = AdaptiveBounds(step=0.05), 0, 0.0
    for at, log_s in enumerate(noise.tolist()):
        low, high = bounds.watch(at, now_s, 1, 0.0, 0.0)
        inside += at >= 3000 and low <= log_s <= high
        bounds.ended(at, now_s + exp(log_s))
        now_s += 1000.0
    assert 0.88 < inside / 3000 < 0.92
    assert bounds.low[0] == bounds.high[2] == 0


def test_a_running_job_has_outlived_its_bound() -> None:
    """A bound is missed from the moment the job is older, and its end then tells nothing more."""
    bounds = AdaptiveBounds(step=1.0)
    bounds.watch("long", 0.0, 1, log(10), log(100))
    bounds.advance(50.0)
    assert (bounds.low[1], bounds.high[1]) == pytest.approx((-0.05, 0.0))
    bounds.advance(101.0)
    known = (bounds.low[1], bounds.high[1])
    assert known == pytest.approx((-0.05, 0.95))
    bounds.ended("long", 9999.0)
    assert (bounds.low[1], bounds.high[1]) == known


def test_bounds_forget_who_ended() -> None:
    """A cluster that runs one job at a time is watched in the room of one."""
    bounds = AdaptiveBounds()
    for job in range(5000):
        bounds.watch(job, float(job), 1, 0.0, 30.0)
        bounds.ended(job, job + 0.5)
    assert not bounds._open
    assert len(bounds._due) <= SPARE + 1


def test_who_was_never_told_teaches_no_bound() -> None:
    """Unknown jobs, and those whose end nobody saw, leave bounds as they are."""
    bounds = AdaptiveBounds()
    bounds.watch("lost", 0.0, 1, 0.0, 5.0)
    bounds.forget("lost")
    bounds.ended("lost", 2.0)
    bounds.ended("other", 3.0)
    assert bounds.low == bounds.high == [0.0, 0.0, 0.0]
