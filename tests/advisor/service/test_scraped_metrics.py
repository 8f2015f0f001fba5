"""Metrics families, help texts and numbers of a scrape."""

import logging
import os
import time
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from slurm_ext.advisor.service import prometheus_collector as collector
from slurm_ext.advisor.service.advisor import Advisor
from slurm_ext.advisor.service.counters import AdvisorCounters
from slurm_ext.advisor.service.prometheus_collector import PrometheusCollector
from slurm_ext.history.store.store import open_history
from tests.advisor.service.test_advisor_lines import always, settings


def samples(families: Any) -> dict[str, Any]:
    """Values by name and labels."""
    return {
        " ".join([one.name, *(f"{k}={v}" for k, v in one.labels.items())]): one.value
        for family in families
        for one in family.samples
    }


def test_a_scrape_has_these_families_and_texts(advisor: Advisor) -> None:
    """Name, kind and help of each, as dashboards and their readers know them."""
    found = {
        one.name: (one.type, one.documentation) for one in PrometheusCollector(advisor).collect()
    }
    assert found == {
        "dlqueue_decisions": ("counter", "Submissions decided on"),
        "dlqueue_answer_seconds": ("histogram", "From a line to its answer"),
        "dlqueue_breaker_trips": ("counter", "Rests that slurmctld's Lua told of"),
        "dlqueue_breaker_open": (
            "gauge",
            "Whether slurmctld probably rests after an answer that came too late",
        ),
        "dlqueue_runs": ("gauge", "Runs that answers rest on"),
        "dlqueue_runs_unreadable": ("gauge", "Runs that were passed over"),
        "dlqueue_interval_factor": ("gauge", "By which intervals are widened"),
        "dlqueue_stopped": (
            "gauge",
            "Scripts, users, or the site (1), which outcomes keep from being changed",
        ),
        "dlqueue_killed": ("gauge", "Whether the kill file is there"),
        "dlqueue_deadline_seconds": ("gauge", "slurmctld's"),
        "dlqueue_serving": ("info", "Mode of the site and model"),
        "dlqueue_ingest_lag_seconds": ("gauge", "Age of the oldest record that waits"),
        "dlqueue_ingest_waiting_records": ("gauge", "Records that wait in the spool"),
        "dlqueue_last_success_timestamp_seconds": (
            "gauge",
            "When a task that goes on unseen succeeded last",
        ),
        "dlqueue_looks_failed": (
            "counter",
            "Looks at the history or the spool that failed",
        ),
    }


def test_a_scrape_has_the_advisors_numbers(advisor: Advisor, tmp_path: Path) -> None:
    """Counters, what is in memory, and the settings."""
    advisor.settings = settings(
        paths__state_dir=str(tmp_path), paths__kill_file=str(tmp_path), advisor__deadline_ms=250
    )
    advisor.factors = always(1.5)
    advisor.counters.decisions = Counter({("leave", "kept"): 2, ("change", "done"): 1})
    advisor.counters.rests = 4
    advisor.counters.answered("submit", 0.02, 0.05, 30.0)
    advisor.counters.answered("submit", 9.0, 0.05, 30.0)
    found = samples(PrometheusCollector(advisor).collect())
    plain: dict[str, Any] = {k: value for k, value in found.items() if "answer" not in k}
    assert plain == {
        "dlqueue_decisions_total action=change outcome=done": 1,
        "dlqueue_decisions_total action=leave outcome=kept": 2,
        "dlqueue_breaker_trips_total": 4,
        "dlqueue_breaker_open": 1,
        "dlqueue_runs": 3,
        "dlqueue_runs_unreadable": 0,
        "dlqueue_interval_factor": 1.5,
        "dlqueue_stopped of=scripts": 0,
        "dlqueue_stopped of=users": 0,
        "dlqueue_stopped of=site": 0,
        "dlqueue_killed": 1,
        "dlqueue_deadline_seconds": 0.25,
        "dlqueue_serving_info mode=act model=": 1,
        "dlqueue_ingest_lag_seconds": 0.0,
        "dlqueue_ingest_waiting_records": 0,
        "dlqueue_looks_failed_total": 0,
    }
    bucket = "dlqueue_answer_seconds_bucket kind=submit le="
    assert [found[f"{bucket}{bound}"] for bound in ("0.01", "0.025", "1.0", "+Inf")] == [0, 1, 1, 2]
    assert found["dlqueue_answer_seconds_sum kind=submit"] == pytest.approx(9.02)
    assert list(PrometheusCollector(advisor).describe()) == []


def test_the_disk_is_looked_at_every_fifteen_seconds(
    advisor: Advisor, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A part that cannot be read is left out and counted; the others are there."""
    caplog.set_level(logging.DEBUG)
    clock, looks = [100.0], list[Path]()

    def failing(state: Path) -> Any:
        looks.append(state)
        raise OSError(5, "disk")

    monkeypatch.setattr(collector, "of_history", failing)
    monkeypatch.setattr(
        "slurm_ext.advisor.service.prometheus_collector.time.monotonic", lambda: clock[0]
    )
    made = PrometheusCollector(advisor)
    for clock_s, count in ((100.0, 1), (114.9, 1), (115.0, 2)):
        clock[0] = clock_s
        found = samples(made.collect())
        assert found["dlqueue_looks_failed_total"] == len(looks) == count
        assert "dlqueue_ingest_waiting_records" in found
    assert set(looks) == {advisor.settings.state_dir}
    assert caplog.messages == ["left out of the metrics: [Errno 5] disk"] * 2


def test_the_ledgers_metrics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gain, accuracy, what was set aside, and the journal's bytes that wait."""
    assert collector.of_history(tmp_path) == []
    open_history(tmp_path / "history.db").close()
    (tmp_path / "journal").mkdir()
    for name, size in (("1.jsonl", 10), ("2.jsonl", 7), ("3.jsonl", 2)):
        (tmp_path / "journal" / name).write_bytes(b"x" * size)

    def standing(**values: Any) -> Any:
        group = SimpleNamespace
        gain = group(changed=group(n=5), control=group(n=6), ratio=None)
        plain: dict[str, Any] = {"gain": gain, "beliefs": None, "set_aside": 3, "journals": {}}
        plain["dropped"] = 4
        return SimpleNamespace(**{**plain, **values})

    whole = standing(
        journals={"1.jsonl": 4, "2.jsonl": 9},
        gain=SimpleNamespace(
            changed=SimpleNamespace(n=5),
            control=SimpleNamespace(n=6),
            ratio=SimpleNamespace(value=1.2, low=1.1, high=1.3),
        ),
        beliefs=SimpleNamespace(
            outcomes=9, error=0.1, coverage=0.8, newest_coverage=0.7, drift=2.0
        ),
    )
    monkeypatch.setattr(collector, "read_self_metrics", lambda _conn, path: checked(path, whole))

    def checked(path: Path, made: Any) -> Any:
        assert path == tmp_path / "history.db"
        return made

    families = collector.of_history(tmp_path)
    assert samples(families) == {
        "dlqueue_set_aside_records": 3,
        "dlqueue_set_aside_dropped_records": 4,
        "dlqueue_journal_lag_bytes": 8,
        "dlqueue_gain_runs group=changed": 5,
        "dlqueue_gain_runs group=control": 6,
        "dlqueue_gain_ratio bound=mean": 1.2,
        "dlqueue_gain_ratio bound=low": 1.1,
        "dlqueue_gain_ratio bound=high": 1.3,
        "dlqueue_model_outcomes": 9,
        "dlqueue_model_error_ratio": 0.1,
        "dlqueue_model_coverage_ratio": 0.8,
        "dlqueue_model_newest_coverage_ratio": 0.7,
        "dlqueue_model_drift_ratio": 2.0,
    }
    assert {one.name: one.documentation for one in families} == {
        "dlqueue_set_aside_records": "Records that could not be read",
        "dlqueue_set_aside_dropped_records": "Records that had no room",
        "dlqueue_journal_lag_bytes": "Decisions that are not in the ledger yet",
        "dlqueue_gain_runs": "Decisions of each group",
        "dlqueue_gain_ratio": "Rate of changed jobs over the control group's, 95 % interval",
        "dlqueue_model_outcomes": "Newest outcomes looked at",
        "dlqueue_model_error_ratio": "Median error of predicted rates",
        "dlqueue_model_coverage_ratio": "Share that 90 % intervals held",
        "dlqueue_model_newest_coverage_ratio": "Share that the 20 newest intervals held",
        "dlqueue_model_drift_ratio": "Error of the newest quarter over that of the rest",
    }
    whole = standing()
    assert set(samples(collector.of_history(tmp_path))) == {
        "dlqueue_set_aside_records",
        "dlqueue_set_aside_dropped_records",
        "dlqueue_journal_lag_bytes",
        "dlqueue_gain_runs group=changed",
        "dlqueue_gain_runs group=control",
    }
    whole = standing(
        beliefs=SimpleNamespace(
            outcomes=9, error=0.1, coverage=0.8, newest_coverage=0.7, drift=None
        )
    )
    assert "dlqueue_model_drift_ratio" not in samples(collector.of_history(tmp_path))


def test_a_record_of_the_future_has_no_age(tmp_path: Path) -> None:
    """Clocks differ."""
    (tmp_path / "spool").mkdir()
    path = tmp_path / "spool" / "a.json"
    path.touch()
    os.utime(path, (time.time() + 500,) * 2)
    assert samples(collector.of_spool(tmp_path)) == {
        "dlqueue_ingest_lag_seconds": 0.0,
        "dlqueue_ingest_waiting_records": 1,
    }


def test_counters_rest_as_long_as_the_breaker(monkeypatch: pytest.MonkeyPatch) -> None:
    """From the late answer on."""
    clock = [100.0]
    monkeypatch.setattr("slurm_ext.advisor.service.counters.monotonic", lambda: clock[0])
    counters = AdvisorCounters()
    assert not counters.resting
    counters.answered("submit", 0.06, 0.05, 30.0)
    clock[0] = 129.9
    assert counters.resting
    clock[0] = 130.0
    assert not counters.resting
