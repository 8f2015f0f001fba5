"""Statistics of one key, number by number."""

from math import inf, log, log1p, nan, sqrt

import pytest

from slurm_ext.model.duration.key_statistics import (
    GAP_S,
    MEDIAN_OF,
    NOTHING,
    RECENT,
    STATISTICS,
    KeyStatistics,
    RememberedRun,
)


def add(key: KeyStatistics, job: int, submit_s: float, log_s: float | None = None) -> None:
    """Submit a job and, where its log duration is given, end it a second later."""
    run = RememberedRun(submit_s)
    key.submitted(job, run)
    if log_s is not None:
        key.gone(job, submit_s + 1, log_s)
        run.log_s = log_s


def row(key: KeyStatistics, now_s: float) -> dict[str, float]:
    """Values by name."""
    return dict(zip(STATISTICS, key.row(now_s), strict=True))


def test_a_key_without_jobs() -> None:
    """The values of an unknown key are those of one that was just made."""
    assert KeyStatistics().row(5.0) == pytest.approx(NOTHING, nan_ok=True)
    assert len(NOTHING) == len(STATISTICS)


def test_every_statistic_of_three_ended_jobs() -> None:
    """Log durations 1, 2 and 6, ended 601, 401 and 1 s ago."""
    key = KeyStatistics()
    for job, (submit_s, log_s) in enumerate([(0.0, 1.0), (200.0, 2.0), (600.0, 6.0)]):
        add(key, job, submit_s, log_s)
    mean, square = 3.0, (1 + 4 + 36) / 3  # weights 1/n are above 0.1 and 0.015
    fast = 1.0 + 0.5 * 1.0
    fast += 0.4 * (6.0 - fast)
    seconds = sum(2.718281828459045**x for x in (1.0, 2.0, 6.0)) / 3
    assert row(key, 602.0) == pytest.approx(
        {
            "ended": log1p(3),
            "last": 6.0,
            "before_last": 2.0,
            "third_last": 1.0,
            "fast": fast,
            "middling": mean,
            "slow": mean,
            "spread": sqrt(square - mean**2),
            "median": 2.0,
            "log_mean": log(seconds),
            "recent": 3.0,
            "running": 0.0,
            "youngest": nan,
            "oldest": nan,
            "since_submitted": log1p(2.0),
            "since_ended": log1p(1.0),
            "burst": log1p(3),
        },
        nan_ok=True,
    )


def test_weights_fall_to_their_least() -> None:
    """From the eleventh job on the middling mean moves by a tenth, the fast one by 0.4."""
    key = KeyStatistics()
    for job in range(20):
        add(key, job, float(job), 1.0)
    add(key, 20, 20.0, 2.0)
    values = row(key, 30.0)
    assert (values["fast"], values["middling"]) == pytest.approx((1.4, 1.1))
    assert values["slow"] == pytest.approx(1 + 1 / 21)
    assert values["spread"] == pytest.approx(sqrt(1 + 0.1 * 3 - 1.1**2))


def test_running_jobs_count_by_their_age() -> None:
    """The oldest and the youngest; in `recent` as if they ended now, at least after 1 s."""
    key = KeyStatistics()
    add(key, 1, 0.0)
    add(key, 2, 90.0)
    values = row(key, 90.5)
    assert values["running"] == pytest.approx(log1p(2))
    assert values["oldest"] == pytest.approx(log1p(90.5))
    assert values["youngest"] == pytest.approx(log1p(0.5))
    assert values["recent"] == pytest.approx(log(90.5) / 2)
    key.gone(1, 91.0, None)  # unknown duration: forgotten
    assert row(key, 91.0)["running"] == pytest.approx(log1p(1))
    assert row(key, 91.0)["ended"] == 0.0
    key.gone(7, 92.0, 3.0)  # never submitted
    assert row(key, 92.0)["ended"] == 0.0


def test_a_burst_ends_with_a_gap() -> None:
    """Jobs at most GAP_S apart are one burst, also the one asked about."""
    key = KeyStatistics()
    add(key, 1, 0.0, 1.0)
    add(key, 2, GAP_S, 1.0)
    assert row(key, 2 * GAP_S)["burst"] == pytest.approx(log1p(2))
    assert row(key, 2 * GAP_S + 0.1)["burst"] == 0.0
    add(key, 3, 2 * GAP_S + 0.1, 1.0)
    assert row(key, 2 * GAP_S + 0.2)["burst"] == pytest.approx(log1p(1))


def test_only_the_latest_jobs_count_for_the_median_and_recent() -> None:
    """Older ones than the last MEDIAN_OF, and the last RECENT, are forgotten."""
    key = KeyStatistics()
    add(key, 0, 0.0, 100.0)
    for job in range(1, MEDIAN_OF + 1):
        add(key, job, float(job), float(job))
    values = row(key, 50.0)
    assert values["median"] == MEDIAN_OF // 2 + 1
    latest = range(MEDIAN_OF - RECENT + 1, MEDIAN_OF + 1)
    assert values["recent"] == pytest.approx(sum(latest) / RECENT)


def test_clocks_that_run_back_do_no_harm() -> None:
    """A submission before the last one keeps the later time; nothing is negative."""
    key = KeyStatistics()
    add(key, 1, 100.0, 1.0)
    add(key, 2, 50.0, 1.0)
    values = row(key, 90.0)
    assert values["since_submitted"] == values["since_ended"] == 0.0
    assert all(value > -inf for value in values.values() if value == value)
