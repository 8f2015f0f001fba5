"""A real job's record carries what hardware counted, or null; and says what it shared."""

import json
from typing import Any

import pytest

from slurm_ext.node.counters.perf import events as perf_events
from slurm_ext.node.counters.perf.syscall import PerfKernel
from slurm_ext.node.record.reader import read_record
from slurm_ext.sandbox import Sandbox
from tests.conftest import MakeSandbox
from tests.whole import until

pytestmark = pytest.mark.slurm

WORK = """#!/usr/bin/python3
import os
while not os.path.exists("{}"): sum(range(10**5))
"""


@pytest.fixture(scope="module")
def slurm(make_module_sandbox: MakeSandbox) -> Sandbox:
    """One node of four CPUs with our hooks and the folder transport."""
    sandbox = make_module_sandbox(cpus=4, hooks=True, settings={"node.sample_s": 0.2})
    sandbox.path("dlqueue/spool").mkdir(exist_ok=True)
    return sandbox


def _record(slurm: Sandbox, job_id: int) -> dict[str, Any]:
    folder = slurm.path("dlqueue/spool")
    found = until(lambda: sorted(folder.glob(f"*-{job_id}-*.json")), "the job has no record")
    return read_record(found[0])


def _seen(slurm: Sandbox, job_id: int, counter: str) -> bool:
    """Whether the job's sampler has counted, and knows what the job shares."""
    for path in slurm.layout.root.glob(f"nodes/*/dlqueue/state/{job_id}.0.json"):
        known = json.loads(path.read_text())
        totals = (known.get("meter") or {}).get("totals", {})
        return bool(known.get("shared")) and counter in totals
    return False


def test_two_jobs_beside_each_other_are_counted_and_know_of_each_other(slurm: Sandbox) -> None:
    """Each has its own instructions where this machine counts any, and null where it does not."""
    events, _ = perf_events.usable(PerfKernel(), perf_events.candidates(perf_events.vendor()))
    counted = "perf_instructions" in events
    told = slurm.path("enough")
    jobs = [slurm.sbatch("-c2", script=WORK.format(told))[0] for _ in range(2)]
    wanted = "perf_instructions" if counted else "cpu_user"
    until(lambda: all(_seen(slurm, job_id, wanted) for job_id in jobs), "they never met")
    told.touch()
    for job_id, other in zip(jobs, reversed(jobs), strict=True):
        record = _record(slurm, job_id)
        counters = {c["name"]: c for c in record["counters"]}
        instructions = counters["perf_instructions"]
        assert instructions["source"].startswith("perf/" if counted else "none")
        assert (instructions["value"] or 0) > 1e6 if counted else instructions["value"] is None
        assert counters["node_energy_dram"]["value"] != 0
        (corunner,) = record["corunners"]
        assert corunner["job_id"] == other
        assert set(corunner["shared"]) == {"cpus", "sockets", "gpus"}
