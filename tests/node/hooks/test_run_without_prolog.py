"""Runs without a prolog's notes: it was killed, or Slurm skipped it right after a requeue."""

import os
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.node.common.spool_layout import Spool
from slurm_ext.node.hooks.ended_run import ended_run_key
from slurm_ext.node.record.squeue import is_taken_back
from tests.node.by_hand import Node

BEFORE_S, DONE_S, AFTER_S = 1_760_000_000, 1_760_000_060.5, 1_760_000_060
"""Starts of runs, and when the earlier one's epilog had finished its record."""
ENDED = {"state": "COMPLETED", "start_s": AFTER_S, "end_s": AFTER_S + 9}
BACK = {"state": "COMPLETING", "start_s": AFTER_S, "end_s": None}
LOST = {"state": "COMPLETING", "start_s": BEFORE_S, "end_s": None}
AHEAD_S = 4_000_000_000  # not yet, whenever the test runs
MISSED = {"state": "COMPLETING", "start_s": AHEAD_S, "end_s": AHEAD_S + 600}
HELD = {"state": "CANCELLED", "start_s": BEFORE_S, "end_s": AFTER_S}
RUNS = {"state": "RUNNING", "start_s": AFTER_S, "end_s": AFTER_S + 600}
WAITS = {"state": "PENDING", "start_s": None, "end_s": None}


@pytest.mark.parametrize(
    ("files", "told", "facts", "run"),
    [
        ((), 0, None, "7.0"),  # never seen before: its prolog failed
        ((), 2, None, "7.2"),  # its earlier runs were on other nodes
        ((), 2, ENDED, "7.2"),  # the same, and the controller says so
        ((), 2, BACK, "7.1"),  # requeued: the next run's count is told
        (("7.0.json",), 1, None, "7.0"),  # the same, with its prolog's notes
        (("7.0.done",), 1, ENDED, "7.1"),  # its second run, without a prolog, ended by itself
        (("7.0.done",), 2, BACK, "7.1"),  # its second run, without a prolog, was requeued
        (("7.0.done",), 3, BACK, "7.2"),  # its second run was on another node
        (("7.0.done", "7.1.done", "7.2.json"), 2, None, "7.2"),
        (("7.0.done",), 0, None, "7.0"),  # an epilog that is run again
        (("7.0.done",), 1, LOST, "7.0"),  # the same, for slurmctld lost the end and requeues
        (("7.0.done",), 1, MISSED, "7.0"),  # the same, by the next run's expected start and end
        ((), 1, MISSED, "7.0"),
        (("7.0.done",), 1, None, "7.0"),  # the same, and slurmctld was killed once more
        (("7.0.done",), 1, RUNS, "7.0"),  # the same, and the next run goes on elsewhere
        (("7.0.done",), 1, WAITS, "7.0"),  # the same, and it waits
        (("7.0.done",), 1, HELD, "7.0"),  # the same, and it never began
        (("7.0.done", "7.1.done"), 2, RUNS, "7.1"),
        (("8.0.done",), 1, None, "7.1"),  # another job's
    ],
)
def test_the_run_that_ends_is_told_from_those_that_ended(
    tmp_path: Path, files: tuple[str, ...], told: int, facts: dict[str, Any] | None, run: str
) -> None:
    """Each run gets its own record, whatever the count that slurmd tells."""
    spool = Spool(str(tmp_path))
    spool.prepare()
    for name in files:
        Path(spool.state, name).touch()
        os.utime(Path(spool.state, name), (DONE_S, DONE_S))
    assert ended_run_key(spool, 7, told, lambda: facts) == run


@pytest.mark.parametrize(("end_s", "recorded"), [("NONE", 0), ("1760000000", 1)])
def test_a_requeued_run_without_notes_is_no_run_that_follows(
    node: Node, end_s: str, recorded: int
) -> None:
    """Slurm has no end for a job that it takes back; the run has its own number and state."""
    node.squeue_says(restarts="1", end_s=end_s)
    node.epilog(7, SLURM_JOB_RESTART_COUNT="1")
    (record,) = node.delivered()
    assert record["identity"]["restart"] == recorded
    assert record["outcome"]["state"] == ("COMPLETED" if recorded else "REQUEUED")
    node.epilog(7, SLURM_JOB_RESTART_COUNT="1")  # once more
    assert len(node.delivered()) == 1


@pytest.mark.parametrize(("state", "back"), [("COMPLETING", True), ("RUNNING", False)])
def test_a_job_without_a_time_limit_has_no_end_while_it_runs(state: str, back: bool) -> None:
    """That alone takes nothing back."""
    assert is_taken_back({"state": state, "end_s": None}, 2.0) is back
    assert not is_taken_back({"state": state, "end_s": 1}, 2.0)
