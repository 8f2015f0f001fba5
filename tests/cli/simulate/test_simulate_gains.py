"""How far a policy is from the first one: a comparison of the same jobs."""

from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from slurm_ext.cli.simulate.jobs_text import JobsReplayed
from slurm_ext.simulate.replay_result import ReplayResult


def outcome(
    policy: str, ends: Sequence[float], unfinished: Mapping[int, str] | None = None
) -> ReplayResult:
    """Three jobs that were submitted at 0."""
    return ReplayResult(
        policy=policy,
        submit_s=np.zeros(3),
        duration_s=np.full(3, 10.0),
        start_s=np.zeros(3),
        end_s=np.array(ends),
        gpus_in_all=8,
        changed_s=np.array([0.0, 10.0]),
        used=np.array([8, 0]),
        unfinished=unfinished or {},
    )


def told(*results: ReplayResult) -> list[str]:
    """Comparisons below the table."""
    replayed = JobsReplayed(
        kind="queue",
        title="",
        source="",
        nodes=1,
        gpus=8,
        repairs={},
        results=results,
        jobs=("a", "b", "c"),
    )
    return [line for line in replayed.page().remarks if "mean JCT" in line]


@pytest.mark.parametrize(
    ("ends", "ahead"), [([5.0, 10.0, 500.0], "2.00x better"), ([20.0, 40.0, 1.0], "2.00x worse")]
)
def test_a_gain_is_that_of_the_jobs_that_complete_under_both(
    ends: Sequence[float], ahead: str
) -> None:
    """A job that one policy never completes says nothing about the other's speed."""
    first = outcome("first", [10.0, 20.0, 1000.0])
    (line,) = told(first, outcome("second", ends, {2: "refused"}))
    assert line == (
        f"second: mean JCT {ahead} than first over the jobs that complete under both (2)"
    )


def test_where_all_complete_nothing_more_is_said() -> None:
    """The sentence is of all jobs."""
    (line,) = told(outcome("first", [10.0, 20.0, 30.0]), outcome("second", [5.0, 10.0, 15.0]))
    assert line == "second: mean JCT 2.00x better than first"


def test_without_a_job_in_common_nothing_is_compared() -> None:
    """Two policies that complete different jobs alone have no common mean."""
    first = outcome("first", [10.0, 20.0, 30.0], {0: "refused"})
    assert told(first, outcome("second", [10.0, 20.0, 30.0], {1: "refused", 2: "refused"})) == []
