"""Statistics of repeated runs of a pair, worked out by hand."""

from dataclasses import replace
from math import inf, log, nan, sqrt
from typing import Any

import pytest

from slurm_ext.core.gpu_sharing import CorunMeasurement
from slurm_ext.model.slowdown.pair_measurement import (
    LEAST,
    MINUTE_LOG_SD,
    MOST,
    RUN_LOG_SD,
    SURE,
    all_pair_stats,
    is_usable,
    key,
    pair_stats,
)

RUN = CorunMeasurement(job="a", partners=("b",), speed=0.5, seconds=60.0)
V60 = RUN_LOG_SD**2 + MINUTE_LOG_SD**2
V240 = RUN_LOG_SD**2 + MINUTE_LOG_SD**2 / 4


@pytest.mark.parametrize(
    ("fields", "usable"),
    [
        ({}, True),
        ({"speed": LEAST}, True),
        ({"speed": MOST}, True),
        ({"speed": LEAST * 0.999}, False),
        ({"speed": MOST * 1.001}, False),
        ({"speed": nan}, False),
        ({"seconds": 0.001}, True),
        ({"seconds": 0.0}, False),
        ({"seconds": inf}, False),
        ({"partners": ()}, False),
    ],
)
def test_which_rows_are_measurements(fields: dict[str, Any], usable: bool) -> None:
    """Speeds up to both limits, for some time, beside somebody."""
    assert is_usable(replace(RUN, **fields)) == usable


def test_one_run() -> None:
    """Its own log speed; uncertain by its measurement, the next run by as much again."""
    stats = pair_stats([RUN])
    ratio = SURE / SURE
    assert (stats.runs, stats.seconds) == (1, 60.0)
    assert stats.log_speed == pytest.approx(log(0.5))
    assert stats.log_sd == stats.spread == pytest.approx(sqrt(ratio * V60))


def test_two_runs_are_weighted_by_their_time() -> None:
    """The longer run counts more; a contradiction widens both spreads (Birge's ratio)."""
    stats = pair_stats([RUN, replace(RUN, speed=0.8, seconds=240.0)])
    weights = (1 / V60, 1 / V240)
    mean = (weights[0] * log(0.5) + weights[1] * log(0.8)) / sum(weights)
    chi2 = weights[0] * (log(0.5) - mean) ** 2 + weights[1] * (log(0.8) - mean) ** 2
    ratio = (SURE + chi2) / (SURE + 1)
    assert (stats.runs, stats.seconds) == (2, 300.0)
    assert stats.log_speed == pytest.approx(mean)
    assert stats.log_sd == pytest.approx(sqrt(ratio / sum(weights)))
    assert stats.spread == pytest.approx(sqrt(ratio * 2 / sum(weights)))


def test_rows_are_grouped_by_device_job_and_partners() -> None:
    """In any order of partners; unusable ones are left out."""
    rows = [
        replace(RUN, partners=("c", "b")),
        replace(RUN, partners=("b", "c")),
        replace(RUN, device="v100"),
        replace(RUN, job="b", partners=("a",)),
        replace(RUN, speed=0.0),
    ]
    stats = all_pair_stats(rows)
    assert {name: one.runs for name, one in stats.items()} == {
        ("cpu", "a", ("b", "c")): 2,
        ("v100", "a", ("b",)): 1,
        ("cpu", "b", ("a",)): 1,
    }
    assert key("a", ["c", "b"], "cpu") == key("a", ["b", "c"], "cpu")
