"""First advice as a person reads it."""

from typing import Any

from slurm_ext.cli.common.advice_text import clause, lines

ADVICE: dict[str, Any] = {
    "word": "network",
    "action": "buckets",
    "share": 0.31,
    "removable_s": 420.4,
    "interval_s": [0.0, 500.0],
    "cost": "setting",
    "next": "smaller gradient buckets that overlap the backward pass",
    "option": "DistributedDataParallel(bucket_cap_mb=12)",
    "value": 12,
}


def test_an_advice_tells_its_cause_its_seconds_and_its_option() -> None:
    """In one line; a prediction has a share and no seconds of a run."""
    assert clause(ADVICE) == (
        "smaller gradient buckets that overlap the backward pass (exposed communication: 31 % of"
        " its training, about 420 s, 0 to 500 s): DistributedDataParallel(bucket_cap_mb=12)"
    )
    told = clause({**ADVICE, "removable_s": None, "option": None})
    assert told.endswith("(exposed communication: 31 % of its time)")


def test_the_first_is_named_and_others_follow() -> None:
    """At most three lines of many."""
    heads = [line.partition(" ")[0] for line in lines([ADVICE] * 5)]
    assert heads == ["advice:", "then:", "then:"]
    assert list(lines([])) == []
