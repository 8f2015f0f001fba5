"""A job that began under an older dlqueue is recorded by the one that is there when it ends."""

import json
from pathlib import Path

from slurm_ext.node.common import state
from tests.node.by_hand import Node

# As hooks of the first layout left them in the middle of a job; ROOT stands for the test's folder.
V1 = Path(__file__).parents[2] / "golden" / "state" / "v1.json"


def test_a_job_submitted_before_an_update_is_recorded_after_it(node: Node) -> None:
    """An older prolog's state and an older node.json are enough for the new epilog."""
    before = json.loads(V1.read_text())
    boot = state.boot_id()
    text = json.dumps(before["node"]).replace("ROOT", str(node.root))
    node.json.write_text(text)
    node.spool.prepare()
    job = {**before["state"], "boot_id": boot, "host": {**before["state"]["host"], "boot_id": boot}}
    Path(node.spool.state_file("77.0", "json")).write_text(json.dumps(job))
    node.squeue_says(name="train")
    node.epilog(77, SLURM_JOB_ACCOUNT="acc")
    (record,) = node.delivered()
    assert record["identity"]["job_id"] == 77
    assert record["identity"]["account"] == "acc"
    counters = {row["name"]: row for row in record["counters"]}
    assert counters["cpu_user"]["value"] + counters["cpu_system"]["value"] >= 0.5
    assert counters["cpu_user"]["source"] == "proc"
