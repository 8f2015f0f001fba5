"""The pure parts: outcome, squeue's line, the environment's words."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_ext.core.records import Outcome
from slurm_ext.core.units import format_minutes
from slurm_ext.node.common import job
from slurm_ext.node.common.spool_layout import record_id
from slurm_ext.node.record.fields import STATES
from slurm_ext.node.record.outcome import outcome
from slurm_ext.node.record.reader import RECORD_ID
from slurm_ext.node.record.squeue import _FIELDS, memory_bytes, parse_squeue, seconds


def _facts(**told: Any) -> dict[str, Any]:
    return {"state": "COMPLETING", "reason": "None", "restarts": 0, "exit_code": 0, **told}


@pytest.mark.parametrize(
    ("status", "facts", "state"),
    [  # as measured on Slurm 22.05.8 from inside the epilog
        (0, _facts(), "COMPLETED"),
        (768, _facts(reason="NonZeroExitCode", exit_code=768), "FAILED"),
        (0, _facts(exit_code=15), "CANCELLED"),  # slurmd says 0:0, the controller 0:15
        (0, _facts(exit_code=9), "CANCELLED"),  # it did not end within KillWait
        (0, _facts(exit_code=143 << 8), "CANCELLED"),  # its shell's child had the signal first
        (0, _facts(reason="NonZeroExitCode", exit_code=15), "FAILED"),
        (15, None, "CANCELLED"),
        (9, None, "UNKNOWN"),  # scancel, the time limit, the kernel or the job itself
        (1, None, "UNKNOWN"),  # a hangup, or what 22.05 tells nodes of a job that another one lost
        (0, _facts(reason="TimeLimit", exit_code=15), "TIMEOUT"),
        (0, _facts(restarts=1), "REQUEUED"),
        (9, _facts(reason="JobLaunchFailure", exit_code=9), "FAILED"),
        (0, _facts(exit_code=125), "OUT_OF_MEMORY"),
        (0, _facts(reason="OutOfMemory", exit_code=0), "OUT_OF_MEMORY"),
        (0, _facts(state="TIMEOUT"), "TIMEOUT"),
        (768, None, "FAILED"),
        (0, None, "UNKNOWN"),
        (0, _facts(state="RUNNING", exit_code=0), "UNKNOWN"),  # it lost the end that it ordered
        (15, _facts(state="RUNNING", exit_code=0), "CANCELLED"),
        (0, _facts(exit_code=0xFFFFFFFE), "UNKNOWN"),  # the last run's, which was missing
        (126, None, "UNKNOWN"),
        (None, None, "UNKNOWN"),
    ],
)
def test_the_epilogs_outcome(status: int | None, facts: dict[str, Any] | None, state: str) -> None:
    """What slurmd and the controller say, in Slurm's words; silence is never success."""
    found = outcome({"status": status}, facts, restart=0, rebooted=False)
    assert (found["state"], found["source"]) == (state, "epilog")


@pytest.mark.parametrize(
    ("rebooted", "facts", "state"),
    [
        (True, None, "NODE_FAIL"),
        (False, None, "UNKNOWN"),
        (False, _facts(state="RUNNING"), "UNKNOWN"),
        (True, _facts(state="COMPLETED"), "COMPLETED"),
    ],
)
def test_the_outcome_without_epilog(
    rebooted: bool, facts: dict[str, Any] | None, state: str
) -> None:
    """Nobody told how it ended: the controller's word, else the reboot, else unknown."""
    found = outcome(None, facts, restart=0, rebooted=rebooted)
    assert (found["state"], found["source"]) == (state, "node")


def test_the_words_are_the_records_words() -> None:
    """The hooks cannot import facts; their states are the same."""
    assert set(STATES) == {each.value for each in Outcome}


def _line(**cells: str) -> str:
    cells = {"job_id": "7", **cells}
    return "".join(f"{cells.get(name, 'N/A')[:width]:<{width}}" for name, _, width in _FIELDS)


@given(st.text(max_size=300))
def test_no_job_name_poses_as_another_field(name: str) -> None:
    """The name stands last in fixed columns: whatever it holds, the state stays the state."""
    facts = parse_squeue(_line(state="COMPLETING", cpus="4", job_name="").rstrip("\n") + name, 7)
    assert facts is not None
    assert (facts["state"], facts["cpus"]) == ("COMPLETING", 4)


def test_an_ordinary_job_is_no_array() -> None:
    """For squeue names every job as its own array."""
    facts = parse_squeue(_line(state="RUNNING", array_job_id="7"), 7)
    assert facts is not None
    assert facts["array_job_id"] is None


@pytest.mark.parametrize("text", ["", "slurm_load_jobs error: Invalid job id", "\n\n", "x" * 900])
def test_anything_else_is_no_answer(text: str) -> None:
    """Errors and garbage are silence."""
    assert parse_squeue(text, 7) is None


def test_an_arrays_last_task_is_told_from_its_siblings() -> None:
    """It has the array's own id, for which squeue prints a line for every task."""
    tasks = {"8": "3", "7": "4"}
    lines = [
        _line(job_id=told, state="RUNNING", array_job_id="7", array_task_id=task)
        for told, task in tasks.items()
    ]
    for told, task in tasks.items():
        facts = parse_squeue("\n".join(lines), int(told))
        assert facts is not None
        assert (facts["array_job_id"], facts["array_task_id"]) == (7, int(task))


@given(st.integers(1, 10_000_000))
def test_time_limits_are_read_as_slurm_writes_them(limit_s: int) -> None:
    """To the second, days included."""
    assert seconds(format_minutes(limit_s / 60)) == limit_s


@pytest.mark.parametrize(
    ("tres", "size"),
    [
        ("cpu=2,mem=400M,node=1", 400 * 1024**2),
        ("mem=1.50G", 1536 * 1024**2),
        ("mem=7", 7 * 1024**2),
        ("cpu=1", None),
        ("mem=x", None),
    ],
)
def test_memory_of_a_tres_list(tres: str, size: int | None) -> None:
    """Slurm's units; a bare number is MiB."""
    assert memory_bytes(tres) == size


@given(st.dictionaries(st.text(min_size=1), st.text()))
def test_no_environment_breaks_the_identity(env: dict[str, str]) -> None:
    """Any texts give an identity that JSON and UTF-8 can carry."""
    told = job.identity({**env, "SLURM_JOB_ID": "1"}, "c", 0)
    assert all(str(value).encode() for value in told.values())
    job.allocation(env)


@given(st.text(), st.text())
def test_every_record_id_is_a_file_name(cluster: str, node: str) -> None:
    """Whatever cluster and node are called."""
    assert RECORD_ID.fullmatch(record_id(cluster, 1, 0, node))
