"""How long waiting jobs are taken to run: by the model, by runs of their like, by their limit."""

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.control.queue.runtime_estimates import (
    RuntimeEstimate,
    RuntimeEstimates,
    StickyEstimates,
)
from slurm_ext.model.duration.artifact import ABOUT
from slurm_ext.slurm import JobInfo
from tests.advisor.what_if.test_run_times import NOW_S, ended, promote


def job(**changes: Any) -> JobInfo:
    """One of ann's trainings that wait."""
    plain: dict[str, Any] = {"user_name": "ann", "name": "train", "time_limit_minutes": 60}
    return JobInfo(job_id=1, gpus=1, **{**plain, **changes})


def told(times: RuntimeEstimates, **changes: Any) -> RuntimeEstimate:
    """Of one job, now."""
    return times.of([job(**changes)], NOW_S)[0]


def test_without_history_the_limit_counts(tmp_path: Path) -> None:
    """And a week where there is none."""
    times = RuntimeEstimates(tmp_path, busy_timeout_ms=100)
    assert told(times) == RuntimeEstimate(seconds=3600.0, by="limit")
    assert told(times, time_limit_minutes=None).seconds == 7 * 86400.0


def test_without_a_model_runs_of_its_like_count(tmp_path: Path) -> None:
    """As they end; never more than its limit; another's job is another."""
    times = RuntimeEstimates(tmp_path, busy_timeout_ms=100)
    ended(tmp_path, 1, 3)
    assert told(times) == RuntimeEstimate(seconds=100.0, by="runs")
    ended(tmp_path, 10, 3, elapsed_s=300.0)
    assert told(times).seconds == pytest.approx(200.0)
    assert told(times, time_limit_minutes=2).seconds == 120.0
    assert told(times, user_name="bob").by == "limit"


def test_a_promoted_model_counts_first(tmp_path: Path) -> None:
    """With its interval; it follows the history from round to round."""
    ended(tmp_path, 1, 10)
    times = RuntimeEstimates(tmp_path, busy_timeout_ms=100)
    assert told(times).by == "runs"
    promote(tmp_path)
    found = told(times)
    assert found.by == "model"
    assert found.low_s is not None
    assert found.high_s is not None
    assert found.low_s < found.seconds < found.high_s


def test_a_damaged_model_is_said_once_and_survived(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The queue goes on by what else is known."""
    ended(tmp_path, 1, 3)
    (promote(tmp_path) / ABOUT).write_text("{")
    times = RuntimeEstimates(tmp_path, busy_timeout_ms=100)
    with caplog.at_level(logging.WARNING):
        assert [told(times).by for _ in range(3)] == ["runs"] * 3
    assert caplog.text.count("run times stay as they are known") == 1


def test_a_history_put_in_its_place_is_another(tmp_path: Path) -> None:
    """What was remembered of the old one is forgotten."""
    ended(tmp_path, 50, 3)
    times = RuntimeEstimates(tmp_path, busy_timeout_ms=100)
    assert told(times).seconds == 100.0
    (tmp_path / "history.db").rename(tmp_path / "old.db")
    ended(tmp_path, 1, 2, elapsed_s=500.0)
    assert told(times).seconds == 500.0


def test_what_was_foretold_first_is_kept(tmp_path: Path) -> None:
    """While the job is there; only a limit gives way to what is known later."""
    first = StickyEstimates(RuntimeEstimates(tmp_path, busy_timeout_ms=100))
    assert first.of([job()], NOW_S)[0].by == "limit"
    ended(tmp_path, 1, 3)
    assert first.of([job()], NOW_S)[0].seconds == 100.0
    ended(tmp_path, 10, 3, elapsed_s=300.0)
    assert first.of([job()], NOW_S)[0].seconds == 100.0
    first.see([])
    assert first.of([job()], NOW_S)[0].seconds == pytest.approx(200.0)


def test_siblings_that_ended_tell_of_those_that_wait(tmp_path: Path) -> None:
    """Submitted with it; also to a loop that starts after they ended. Never beyond its limit."""
    wait = job(submit_time_s=int(NOW_S))
    first = StickyEstimates(RuntimeEstimates(tmp_path, busy_timeout_ms=100))
    assert first.of([wait], NOW_S)[0].by == "limit"
    times = {"submit_s": NOW_S - 5, "start_s": NOW_S - 5, "end_s": NOW_S + 95}
    ended(tmp_path, 10, 3, **times)
    for one in (first, StickyEstimates(RuntimeEstimates(tmp_path, busy_timeout_ms=100))):
        told_s = one.of([wait], NOW_S)[0]
        assert told_s.by == "siblings"
        assert 99.0 < told_s.seconds < 300.0
    short = replace(wait, time_limit_minutes=1)
    assert (
        StickyEstimates(RuntimeEstimates(tmp_path, busy_timeout_ms=100))
        .of([short], NOW_S)[0]
        .seconds
        == 60.0
    )


def test_siblings_that_run_long_tell_too_and_who_is_gone_does_not(tmp_path: Path) -> None:
    """By their age, while Slurm says that they run."""
    wait = job(submit_time_s=1000, time_limit_minutes=6000)
    runs = replace(wait, job_id=2, state="RUNNING", start_time_s=1000, time_limit_minutes=None)
    first = StickyEstimates(RuntimeEstimates(tmp_path, busy_timeout_ms=100))
    ended(tmp_path, 10, 3)
    base = first.of([wait], 1001.0)[0]
    assert (base.by, base.seconds) == ("runs", 100.0)
    first.see([wait, runs])
    assert first.of([wait], 50_000.0)[0].seconds > 1000.0
    first.see([wait])
    assert first.of([wait], 50_000.0)[0] == base
