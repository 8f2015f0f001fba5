"""The time limit of a job that may name none: Slurm gives it that of its partition."""

import pytest

from slurm_ext.advisor.limits.partition_limits import ClusterRules
from slurm_ext.core.records import Submission

RULES = ClusterRules(
    minutes={"short": 60.0, "long": 600.0, "free": None, "shut": 0.0}, default="short"
)


@pytest.mark.parametrize(
    ("partition", "own", "expected"),
    [
        (None, None, 60.0),
        ("long", None, 600.0),
        ("short,long", None, 600.0),
        ("short,free", None, None),
        ("shut", None, 0.0),
        ("long", 30, 30),
        ("gone", None, None),
    ],
)
def test_a_job_has_its_own_limit_else_the_longest_of_its_partitions(
    partition: str | None, own: int | None, expected: float | None
) -> None:
    """Any of several partitions may start it; one without a limit, or unknown, gives none."""
    assert RULES.minutes_of(Submission(partition=partition, time_limit_minutes=own)) == expected
