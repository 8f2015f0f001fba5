"""The controller's answer for an array's last task, which comes with those of its siblings."""

import pytest

from slurm_ext.node.record.squeue import _FIELDS, query_job
from tests.node.by_hand import Node


def _task(job_id: int, task: int) -> str:
    said = {"job_id": job_id, "state": "RUNNING", "array_job_id": 7, "array_task_id": task}
    return "".join(f"{said.get(name, 'N/A'):<{width}}" for name, _, width in _FIELDS)


@pytest.mark.parametrize("tasks", [2, 69, 5000])
def test_the_last_task_of_a_large_array_keeps_its_facts(node: Node, tasks: int) -> None:
    """It has the array's own id, for which squeue lists every task that runs or just ended."""
    lines = [_task(1000 + task, task) for task in range(1, tasks)] + [_task(7, tasks)]
    (node.root / "lines").write_text("\n".join(lines) + "\n")
    squeue = node.bin / "squeue"
    squeue.write_text(f"#!/bin/sh\nexec /bin/cat '{node.root}/lines'\n")
    squeue.chmod(0o755)
    facts = query_job(node.config, 7, wait_s=60.0)
    assert facts is not None
    assert (facts["state"], facts["array_job_id"]) == ("RUNNING", 7)
    assert facts["array_task_id"] == tasks
