"""Runs that contradict themselves, at each rule's limit, and reasons for having no estimate."""

from dataclasses import replace
from math import inf, nan
from typing import Any

import pytest

from slurm_ext.core.records import Level, LoaderRun
from slurm_ext.model.throughput.evidence_checks import (
    SLACK,
    evidence_flag,
    inconsistency,
    usable_runs,
    why_no_estimate,
)

RUN = LoaderRun(
    samples_per_s=100.0,
    workers=2,
    cores=1.0,
    batch_size=32,
    accel_samples_per_s=100.0,
    fetch_wall_s=0.02,
    fetch_cpu_s=0.01,
)


@pytest.mark.parametrize(
    ("within", "beyond", "reason"),
    [
        ({"accel_samples_per_s": 100 / SLACK}, {"accel_samples_per_s": 66.6}, "its own steps"),
        ({"fetch_wall_s": 0.03}, {"fetch_wall_s": 0.0301}, "its own loader"),
        ({"workers": 0, "fetch_wall_s": 0.015}, {"workers": 0, "fetch_wall_s": 0.0151}, "loader"),
        ({"fetch_cpu_s": 0.015}, {"fetch_cpu_s": 0.0151}, "than its cores can"),
        ({"cores": 0.5, "fetch_cpu_s": 0.015}, {"cores": 1.2, "fetch_cpu_s": 0.0181}, "its cores"),
        ({"cores": 3.0, "node_cores": 2}, {"cores": 3.1, "node_cores": 2}, "than its node"),
        ({"fetch_cpu_s": 0.0}, {"fetch_cpu_s": -1e-9}, "less than nothing"),
        ({"batch_size": 1e-3}, {"batch_size": 1e-30}, "of a size that cannot be"),
        ({"batch_size": 1e17}, {"batch_size": 1e18}, "of a size that cannot be"),
        ({"cores": 1e-3}, {"cores": 1e-300}, "of a size that cannot be"),
        ({"cores": 1e6}, {"cores": 1e300}, "of a size that cannot be"),
        ({"workers": 0, "fetch_wall_s": 0.01}, {"workers": -1}, "less than nothing"),
    ],
)
def test_each_rule_has_slack_and_an_end(
    within: dict[str, Any], beyond: dict[str, Any], reason: str
) -> None:
    """At the limit a run is sound, beyond it is not, and the reason is said."""
    assert inconsistency(replace(RUN, **within)) is None
    assert reason in str(inconsistency(replace(RUN, **beyond)))


@pytest.mark.parametrize(
    "name", ["samples_per_s", "accel_samples_per_s", "fetch_wall_s", "batch_size", "cores"]
)
@pytest.mark.parametrize("value", [0.0, -1.0, inf, nan])
def test_every_count_is_a_positive_number(name: str, value: float) -> None:
    """Zero, endless and not-a-number are no measurement."""
    fields: dict[str, Any] = {name: value}
    assert inconsistency(replace(RUN, **fields)) == "it counted nothing"


def test_flagged_and_broken_runs_are_not_used() -> None:
    """Both have to be sound."""
    broken, flagged = replace(RUN, samples_per_s=0.0), replace(RUN, doubt=1)
    assert usable_runs([RUN, broken, flagged]) == [RUN]


def test_the_flag_is_that_of_the_newest_of_the_nearest() -> None:
    """Farther levels and older runs do not count, nor does the cluster."""
    flagged = replace(RUN, doubt=2)
    assert evidence_flag({}) is None
    assert evidence_flag({Level.SCRIPT: [flagged, RUN]}) == 2
    assert evidence_flag({Level.SCRIPT: [RUN, flagged]}) is None
    assert evidence_flag({Level.SCRIPT_ARGS: [RUN], Level.SCRIPT: [flagged]}) is None
    assert evidence_flag({Level.SCRIPT_ARGS: [], Level.SCRIPT: [flagged]}) == 2
    assert evidence_flag({Level.CLUSTER: [flagged]}) is None


def test_the_reason_for_no_estimate_is_said() -> None:
    """No runs, contradictory ones, one alone, and several that disagree."""
    broken = replace(RUN, samples_per_s=0.0)
    reasons = {
        "no runs like this one": {Level.CLUSTER: [RUN]},
        "the only run like this one: it counted nothing": {Level.SCRIPT: [broken]},
        "2 runs like this one: it counted nothing": {Level.SCRIPT: [broken, broken]},
        "one run of a similar job says too little": {Level.SCRIPT: [RUN, broken]},
        "2 runs like this one contradict each other": {Level.SCRIPT: [RUN, RUN]},
        "of a kind that I do not know": {Level.SCRIPT: [replace(RUN, doubt=10**6)]},
    }
    for reason, evidence in reasons.items():
        assert reason in why_no_estimate(evidence)
