"""A job that Slurm suspended has Slurm's elapsed time, which is without that."""

from typing import Any

import pytest

from slurm_ext.node.record.compose import _times
from slurm_ext.node.record.squeue import _FIELDS, parse_squeue

START_S, NODES_START_S = 1000, 1000.4


def elapsed_s(wall_s: float, restart: int = 0, **told: Any) -> float:
    """Elapsed seconds of a job that was there for `wall_s`, for what the controller told."""
    kept = {"boot_id": "b", "started_s": NODES_START_S, "started_uptime_s": 50.0}
    ended_s = NODES_START_S + wall_s
    end = {"boot_id": "b", "ended_s": ended_s, "uptime_s": 50.0 + wall_s}
    facts = {
        "state": "COMPLETING",
        "restarts": 0,
        "submit_s": None,
        "start_s": START_S,
        "end_s": int(ended_s),
        "ran_s": 2,
        **told,
    }
    return float(_times(kept, end, facts, restart)["elapsed_s"])


def test_time_in_suspension_is_no_run_time() -> None:
    """Slurm's RunTime counts, and what came after Slurm's end of the job."""
    assert elapsed_s(82.0) == 2.4
    assert elapsed_s(82.0, end_s=START_S + 81) == 3.4


def test_a_job_that_is_cancelled_while_it_is_suspended_did_not_run_since() -> None:
    """Slurm puts its end where the suspension began; a minute is left for its last seconds."""
    assert elapsed_s(5000.0, end_s=START_S + 2) == 62.0


@pytest.mark.parametrize(
    ("wall_s", "told"),
    [
        (1.9, {}),
        (3.9, {}),  # within what two clocks may differ
        (32.0, {"end_s": START_S + 2}),  # cancelled; it outlasted KillWait
        (82.0, {"ran_s": 82}),
        (82.0, {"ran_s": None}),
        (82.0, {"start_s": None}),
        (82.0, {"end_s": None, "state": "RUNNING"}),
        (82.0, {"end_s": None}),  # taken back: the run that follows
        (82.0, {"restarts": 1}),
        (82.0, {"restarts": None}),
        (82.0, {"start_s": START_S + 500, "end_s": START_S + 600}),  # a number given again
    ],
)
def test_any_other_job_has_the_nodes_elapsed_time(wall_s: float, told: dict[str, Any]) -> None:
    """It is finer than Slurm's, and of this very start."""
    assert elapsed_s(wall_s, **told) == wall_s


@pytest.mark.parametrize(
    ("cell", "ran_s"),
    [("0:02", 2), ("1:00", 60), ("01:02:03", 3723), ("2-00:00:01", 172801), ("INVALID", None)],
)
def test_run_time_is_read_as_squeue_writes_it(cell: str, ran_s: int | None) -> None:
    """The job's name, which may hold anything, stays behind it."""
    said = {"job_id": "7", "state": "COMPLETING", "ran_s": cell, "job_name": "train"}
    line = "".join(f"{said.get(name, 'N/A'):<{width}}" for name, _, width in _FIELDS)
    facts = parse_squeue(line, 7)
    assert facts is not None
    assert (facts["ran_s"], facts["job_name"]) == (ran_s, "train")
