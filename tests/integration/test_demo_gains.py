"""The README's first command: who gains by it, and who is left alone, on a machine of its own."""

import sqlite3
from contextlib import closing
from typing import Any

import pytest

from slurm_ext.core.stalls import own_queue
from tests.integration.a_demo import demo, job

__all__ = ["demo"]  # a fixture
pytestmark = [
    pytest.mark.slurm,
    pytest.mark.alone,
    pytest.mark.long(
        short="integration/test_loop.py::test_the_second_submission_is_right_sized_by_the_first"
    ),
]
QUEUED = "fetch_queued_s + main_queued_s"  # for a sample, ready and without a core
WAITED = f"{QUEUED} > ? * ({QUEUED} + fetch_cpu_s + main_cpu_s)"
COMPUTE_RATE = 32 / 0.06  # samples/s: the emulated accelerator takes 60 ms a batch


def test_starved_loaders_get_workers(demo: dict[str, Any]) -> None:
    """Too few workers, for decoding or for slow storage, become more, and sbatch says so."""
    for name in ("jpeg", "slow_storage"):
        row = job(demo, name)
        assert not row["left_alone"], row
        assert row["num_workers"][1] > row["num_workers"][0]
        assert "workers" in row["message"]
        assert "--comment=dlqueue=off" in row["message"]


def test_idle_cpus_are_given_back(demo: dict[str, Any]) -> None:
    """A job that asks for eight CPUs and uses one gets fewer, and no more workers than it had.

    It keeps them only where its run waited for cores, others' or its own workers: the machine has
    two, and somebody else may want them.
    """
    row = job(demo, "greedy")
    assert row["cpus_per_task"][0] == 8
    if row["cpus_per_task"][1] == 8:
        assert waited_for_cores(demo, "greedy")
        return
    assert row["cpus_per_task"][1] < 8
    assert row["num_workers"][1] <= row["num_workers"][0]


def waited_for_cores(demo: dict[str, Any], name: str) -> bool:
    """Whether the example's first run waited notably, as its record says."""
    with closing(sqlite3.connect(demo["folder"] / "slurm/dlqueue/history.db")) as history:
        query = f"SELECT {WAITED} FROM loader_runs JOIN runs ON runs.id = run WHERE job_name = ?"
        first, *_ = history.execute(f"{query} ORDER BY job_id", (own_queue.WAITED, name))
        return bool(first[0])


def test_a_job_that_is_fine_is_left_alone_and_told_so(demo: dict[str, Any]) -> None:
    """The compute-bound training keeps everything; the line says why."""
    row = job(demo, "compute")
    if row["samples_per_s"][0] < 0.9 * COMPUTE_RATE:
        pytest.skip(
            f"the machine was so busy that it was not fine: {row['samples_per_s'][0]:.0f}/s"
        )
    assert row["left_alone"], row
    assert row["cpus_per_task"][0] == row["cpus_per_task"][1]
    assert "left as it is" in row["message"]
