"""The advisor learns by itself: enough outcomes start a training, a better model is served."""

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.core.wire import encode_request
from tests.advisor.a_service import GOLDEN_SPOOL, Service, golden_record, until

OUTCOMES = 150
USERS, PARTITIONS = 5, 3


def put_runs(spool: Path) -> None:
    """Runs that cost four times as much from partition to partition: no user's median knows it."""
    golden = json.loads(GOLDEN_SPOOL.read_text())
    for job_id in range(1, OUTCOMES + 1):
        where, record = job_id % PARTITIONS, deepcopy(golden)
        for phase in record["probe"]["summaries"][0]["loaders"][0]["phases"]:
            for cost in ("wall_s", "wait_s", "step_s", "fetch_wall_s", "fetch_cpu_s"):
                phase[cost] *= 4**where * (1 + job_id % 5 / 100)
        by = {"user": f"user{job_id % USERS}", "partition": f"part{where}", "job_id": job_id}
        identity = {**golden["identity"], **by}
        times = {**golden["times"], "end_s": golden["times"]["end_s"] + 60 * job_id}
        golden_record(
            spool, job_id, identity=identity, times=times, probe=record["probe"], decision=None
        )


def served(service: Service) -> Any:
    """The name of the model that answers now."""
    return service.say(encode_request("ping"))["model"]


@pytest.mark.journey
def test_enough_outcomes_bring_a_new_model_without_a_pause(short_folder: Path) -> None:
    """Records arrive, the history writer trains in a child, the server swaps while it answers."""
    service = Service(short_folder, **{"advisor.retrain_after": OUTCOMES}).start()
    try:
        before = served(service)
        put_runs(short_folder / "state" / "spool")
        log = short_folder / "state" / "train.log"
        until(log.exists, "a training")
        until(lambda: served(service) != before, "a new model")
        assert "promoted" in log.read_text()
        assert service.alive()
    finally:
        service.stop()
