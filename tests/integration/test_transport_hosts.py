"""Nodes as hosts of their own: records stream to the advisor, across cut cables and power cuts."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from slurm_ext.advisor.history_writer.receive import Receiver, start_receiver
from slurm_ext.core.settings.document import load
from slurm_ext.sandbox import Sandbox
from tests.conftest import MakeSandbox
from tests.whole import until

pytestmark = [pytest.mark.slurm, pytest.mark.root]


@pytest.fixture
def slurm(make_sandbox: MakeSandbox) -> Sandbox:
    """Two hosts with the stream transport; the advisor's end is started by the test."""
    settings = {"node.transport": "stream", "node.sample_s": 0.2}
    return make_sandbox(nodes=2, cpus=2, hooks=True, namespaces=True, settings=settings)


@contextmanager
def _receiving(sandbox: Sandbox) -> Iterator[Receiver]:
    receiver = start_receiver(load(sandbox.layout.settings))
    assert receiver is not None
    try:
        yield receiver
    finally:
        receiver.shutdown()
        receiver.server_close()


def _run(sandbox: Sandbox, node: str) -> int:
    job_id, _ = sandbox.sbatch(f"--nodelist={node}", "--wrap", "sleep 0.5")
    assert sandbox.wait(job_id) == "COMPLETED"
    return job_id


def _arrived(sandbox: Sandbox) -> dict[int, str]:
    paths = sorted(sandbox.path("dlqueue/spool").glob("*.json"))
    records = [json.loads(path.read_text()) for path in paths]
    assert len({record["record_id"] for record in records}) == len(records)
    return {r["identity"]["job_id"]: r["identity"]["node"] for r in records}


def _waiting(sandbox: Sandbox, node: str) -> list[Path]:
    return sorted(sandbox.path(f"nodes/{node}/dlqueue/out").glob("*.json"))


def test_a_node_that_was_cut_off_and_killed_delivers_later(slurm: Sandbox) -> None:
    """Stored while nobody listens, kept over cut cable and power cut, delivered once after."""
    one, two = slurm.nodes
    kept = _run(slurm, one)
    until(lambda: _waiting(slurm, one), "nothing waits on the node")
    slurm.cut(one)
    with _receiving(slurm):
        passed = _run(slurm, two)
        until(lambda: passed in _arrived(slurm), "the node that was left sends nothing")
        assert kept not in _arrived(slurm)
        slurm.kill_node(one)
        assert len(_waiting(slurm, one)) == 1
        slurm.mend(one)
        slurm.start(one)
        slurm.wait_for_nodes()
        later = _run(slurm, one)
        until(lambda: {kept, passed, later} <= set(_arrived(slurm)), "not all were delivered")
        assert _arrived(slurm) == {kept: one, passed: two, later: one}
        until(lambda: not _waiting(slurm, one), "what was delivered stays on the node")


def test_a_job_that_died_with_its_node_keeps_its_counters(slurm: Sandbox) -> None:
    """After the power cut the node still has the sampler's state: one record, with a time line."""
    one = slurm.nodes[0]
    with _receiving(slurm):
        job_id, _ = slurm.sbatch(f"--nodelist={one}", "--no-requeue", "--wrap", "sleep 600")
        state = slurm.path(f"nodes/{one}/dlqueue/state/{job_id}.0.json")
        until(lambda: state.exists() and "seen_s" in json.loads(state.read_text()), "no sampler")
        slurm.kill_node(one)
        slurm.start(one)
        slurm.run(["scancel", str(job_id)])
        until(lambda: job_id in _arrived(slurm), "no record came")
        (record,) = [json.loads(p.read_text()) for p in slurm.path("dlqueue/spool").glob("*.json")]
        assert record["timeline"]["rows"]
