"""Why a waiting job is where it is: the document behind `dlqueue explain`, and its words."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.control.queue.queue_position import view, waiting_job
from slurm_ext.core.settings.document import Settings
from slurm_ext.questions.explain.queue import lines
from slurm_ext.questions.waiting.reasons import reason
from slurm_ext.slurm import JobInfo, MemoryClient, NodeInfo

NOW = 1_800_000_000.0


def job(job_id: int, **changes: Any) -> JobInfo:
    """A job of two GPUs and an hour that waits for its turn."""
    plain: dict[str, Any] = {
        "job_id": job_id,
        "user_name": "ann",
        "name": f"j{job_id}",
        "state": "PENDING",
        "partition": "gpu",
        "submit_time_s": int(NOW) - 600 + job_id,
        "time_limit_minutes": 60,
        "gpus": 2,
        "cpus": 4,
        "priority": 5000 - job_id,
        "reason": "Priority",
    }
    return JobInfo(**{**plain, **changes})


RUNS = job(1, state="RUNNING", start_time_s=int(NOW) - 1800, end_time_s=int(NOW) + 1800)
NODE = NodeInfo(
    name="n1", cpus=8, mem_mib=1, gres={"gpu": 2}, state="MIXED", partitions=("gpu", "cpu")
)


def seen(tmp_path: Path, job_id: int, *jobs: JobInfo, mode: str = "off") -> dict[str, Any] | None:
    """The view of one job, of a cluster with these and one node of two GPUs."""
    client = MemoryClient(known_jobs=jobs, known_nodes=(NODE,))
    settings = Settings(values={"paths.state_dir": str(tmp_path), "queue.mode": mode})
    job = waiting_job(client.jobs(), job_id)
    return None if job is None else view(client, client.jobs(), settings, job, NOW)


def test_place_and_start_follow_from_who_is_before_it(tmp_path: Path) -> None:
    """Half an hour for whoever runs, an hour for the job between: an hour and a half."""
    found = seen(tmp_path, 3, RUNS, job(2), job(3), job(4), job(5, partition="cpu"))
    assert found is not None
    assert (found["place"], found["of"]) == (2, 3)
    assert [(one["job"], one["priority_more"]) for one in found["ahead"]] == [("2", 1)]
    expected = {"start_s": NOW + 5400, "low_s": NOW + 5400, "high_s": NOW + 5400, "by": ["limit"]}
    assert found["expected"] == expected
    assert found["order"] is None


def test_the_loops_order_is_told_where_it_is_on(tmp_path: Path) -> None:
    """In shadow too: who needs less goes before it."""
    found = seen(tmp_path, 2, RUNS, job(2), job(3, time_limit_minutes=5), mode="shadow")
    assert found is not None
    assert (found["place"], found["order"]["place"], found["order"]["after"]) == (1, 2, "3")
    said = "\n".join(lines(found))
    assert "place:    1 of 2 that wait for their turn in gpu: priority 4998" in said
    assert "order:    2 of 2 by need, after job 3: predicted to run 1 h (by limit) (shadow" in said


def test_a_held_job_has_no_place_and_its_reason_is_told(tmp_path: Path) -> None:
    """Nor do we say when it starts; the loop leaves it alone."""
    held = job(2, priority=None, reason="JobHeldUser")
    found = seen(tmp_path, 2, RUNS, held, mode="act")
    assert found is not None
    assert (found["place"], found["expected"]) == (None, None)
    said = "\n".join(lines(found))
    assert "its user holds it (scontrol release) (JobHeldUser)" in said
    assert "order:    left alone by dlqueue: it is held" in said
    assert "start:    Slurm does not say" in said


def test_every_task_of_an_array_counts(tmp_path: Path) -> None:
    """Four that wait in one line go one after the other."""
    array = job(2, array_job_id=2, array_tasks="0-2,7%1")
    found = seen(tmp_path, 3, RUNS, array, job(3))
    assert found is not None
    assert found["expected"]["start_s"] == NOW + 1800 + 4 * 3600


def test_a_job_larger_than_its_partition_gets_no_time(tmp_path: Path) -> None:
    """There is no honest one."""
    found = seen(tmp_path, 2, job(2, gpus=3))
    assert found is not None
    assert found["expected"] is None


def test_who_does_not_wait_is_not_explained(tmp_path: Path) -> None:
    """Running, ended, or unknown."""
    ended = replace(RUNS, job_id=9, state="COMPLETED")
    assert [seen(tmp_path, n, RUNS, ended) for n in (1, 9, 77)] == [None, None, None]


def test_a_task_is_found_by_its_own_id_and_by_its_arrays(tmp_path: Path) -> None:
    """As people know it."""
    task = job(8, array_job_id=7, array_task_id=3)
    for asked in (7, 8):
        found = seen(tmp_path, asked, RUNS, task)
        assert found is not None
        assert found["place"] == 1


@pytest.mark.parametrize(
    ("word", "text"),
    [
        ("Resources", "waits for enough free"),
        ("ReqNodeNotAvail, UnavailableNodes:n3", "is not available"),
        ("QOSMaxUnheardOf", "squeue(1) explains it"),
    ],
)
def test_slurms_reasons_are_put_in_words(word: str, text: str) -> None:
    """With Slurm's own word, to search for; an unknown one stays as it is."""
    assert text in reason(word)
    assert word in reason(word)
