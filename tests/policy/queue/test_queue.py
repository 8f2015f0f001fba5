"""Orders of a queue: what goes first, what breaks ties."""

import numpy as np
import pytest

from slurm_ext.core.errors import UsageError
from slurm_ext.policy.queue.order import (
    ORDERS,
    USUAL,
    QueuedJobs,
    rule_of,
    rules_of,
)
from slurm_ext.policy.queue.preempting import LEAST_SERVICE, SHORTEST_LEFT


def asked(*rows: tuple[float, int, float]) -> QueuedJobs:
    """Jobs of (submit_s, gpus, estimate_s)."""
    submit_s, gpus, estimate_s = (np.array(column) for column in zip(*rows, strict=True))
    return QueuedJobs(submit_s=submit_s, gpus=gpus, estimate_s=estimate_s)


JOBS = asked((0.0, 4, 10.0), (1.0, 1, 50.0), (2.0, 2, 10.0), (3.0, 1, 20.0))


@pytest.mark.parametrize(
    ("name", "order"),
    [("fifo", [0, 1, 2, 3]), ("fewest", [1, 3, 2, 0]), ("qssf", [2, 3, 0, 1])],
)
def test_who_goes_first(name: str, order: list[int]) -> None:
    """By submission, by GPUs, by GPU-seconds; ties by submission."""
    assert rule_of(name).order(JOBS).tolist() == order


def test_ties_can_be_drawn() -> None:
    """Jobs of one time and size go as the drawn numbers say."""
    jobs = asked((0.0, 1, 5.0), (0.0, 1, 5.0), (0.0, 1, 5.0))
    assert rule_of("qssf").order(jobs, np.array([2, 0, 1])).tolist() == [1, 2, 0]


@pytest.mark.parametrize(
    "name", [*ORDERS, "fifo+backfill", "shortest+backfill+ageing", "qssf+ageing"]
)
def test_a_rule_keeps_the_name_it_was_asked_by(name: str) -> None:
    """What a table shows is what was asked."""
    rule = rule_of(f" {name} ")
    assert rule.name == name
    assert rule.backfill == ("backfill" in name)
    assert len(rules_of(USUAL)) > 3


@pytest.mark.parametrize(
    "text", ["", "lifo", "fifo+", "fifo+backfill+backfill", "tiresias+backfill", "fewest+ageing"]
)
def test_an_unknown_rule_is_wrong_usage(text: str) -> None:
    """The message says what there is."""
    with pytest.raises(UsageError, match="--policy"):
        rule_of(text)


def test_tiresias_sinks_by_service_and_srtf_by_what_is_left() -> None:
    """A class is a range of GPU-hours had; the time to the next one is told."""
    limit = 16 * 3600.0
    assert LEAST_SERVICE.key(limit - 1, 5.0) < LEAST_SERVICE.key(limit, 5.0)
    assert LEAST_SERVICE.until_next(limit - 60) == 60
    assert LEAST_SERVICE.until_next(limit) == float("inf")
    assert SHORTEST_LEFT.key(99.0, 5.0) == 5.0
