"""MPS under a real Slurm with fake GPUs and the stand-in: a daemon lives as long as its jobs."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.sandbox import Sandbox
from tests.conftest import MakeSandbox
from tests.mps_standin import install
from tests.node.by_mps import processes_below
from tests.whole import until

pytestmark = pytest.mark.slurm

CLIENT = """#!/usr/bin/env python3
import os, socket, sys, time
told = {name: os.environ.get(name) for name in sorted(os.environ) if name.startswith("CUDA_")}
client = socket.socket(socket.AF_UNIX)
client.connect(told["CUDA_MPS_PIPE_DIRECTORY"] + "/control")
client.sendall(b"client %d\\n" % os.getpid())
import json
print(json.dumps({**told, "answer": client.recv(64).decode().strip()}), flush=True)
if "fault" in sys.argv:
    client.sendall(b"fault\\n")
while not os.path.exists(GO):
    time.sleep(0.05)
"""


@pytest.fixture(scope="module")
def slurm(
    make_module_sandbox: MakeSandbox, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Sandbox]:
    """One node, one GPU, mps, our hooks."""
    folder = tmp_path_factory.mktemp("nvidia")
    uuid = f"GPU-{hash(str(folder)) & 0xFFFFFFFF:08x}-1111-2222-3333-444455556666"
    control = install(folder, [f"{uuid}, 40960, Disabled, Default"])
    settings = {
        "mps.mode": "act",
        "mps.control": str(control),
        "node.sample_s": 0.5,
        "node.prolog_budget_s": 20.0,  # a busy machine is no fault
        "node.epilog_budget_s": 20.0,
    }
    sandbox = make_module_sandbox(cpus=4, gpus=1, sharing="mps", hooks=True, settings=settings)
    sandbox.path("dlqueue/spool").mkdir(exist_ok=True)
    yield sandbox
    assert _ours(sandbox) == []


@pytest.fixture(autouse=True)
def nodes_stay_up(slurm: Sandbox) -> Iterator[None]:
    """Whatever a test does, no node is drained or down."""
    yield
    said = slurm.run(["sinfo", "-h", "-N", "-o", "%T %E"]).stdout
    assert not any(word in said for word in ("drain", "down", "rolog", "pilog")), said


def _ours(slurm: Sandbox) -> list[int]:
    return [process.pid for process in processes_below(slurm.path("nodes"))]


def _submit(slurm: Sandbox, go: Path, *words: str) -> int:
    script = CLIENT.replace("GO)", f"{str(go)!r})").replace("sys.argv", repr(words))
    return slurm.sbatch("--gres=mps:50", "-c1", script=script)[0]


def _told(slurm: Sandbox, job_id: int) -> dict[str, Any]:
    until(lambda: "answer" in _output(slurm, job_id), f"job {job_id} says nothing")
    told: dict[str, Any] = json.loads(_output(slurm, job_id).splitlines()[0])
    return told


def _output(slurm: Sandbox, job_id: int) -> str:
    try:
        return slurm.output(job_id)
    except FileNotFoundError:
        return ""  # it has not begun


def _record(slurm: Sandbox, job_id: int) -> dict[str, Any]:
    folder = slurm.path("dlqueue/spool")
    (path,) = until(lambda: list(folder.glob(f"*-{job_id}-*.json")), "no record")
    record: dict[str, Any] = json.loads(path.read_text())
    return record


def _of_mps(record: dict[str, Any]) -> list[str]:
    return [fault for fault in record["probe"]["faults"] if fault.startswith("MPS")]


def test_two_jobs_share_a_daemon(slurm: Sandbox, tmp_path: Path) -> None:
    """Its clients at once, with half the GPU each; slurmd may restart; it goes with both jobs."""
    go = tmp_path / "go"
    first = _submit(slurm, go)
    told = _told(slurm, first)
    slurm.restart("slurmd")
    second = _submit(slurm, go)
    assert _told(slurm, second) == told
    assert told["answer"] == "ok"
    assert told["CUDA_VISIBLE_DEVICES"].startswith("GPU-")
    assert told["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] == "50"
    assert told["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] == f"0={40960 * 95 // 200}M"
    assert len(_ours(slurm)) == 2  # the daemon and its server
    go.touch()
    for job_id in (first, second):
        assert slurm.wait(job_id) == "COMPLETED"
        record = _record(slurm, job_id)
        assert (record["mps"]["percent"], _of_mps(record)) == (50, [])
    until(lambda: not _ours(slurm), "a daemon is left")


def test_a_fault_is_in_the_neighbours_record(slurm: Sandbox, tmp_path: Path) -> None:
    """The one that did it and the one beside it: each names the other."""
    go = tmp_path / "go"
    first = _submit(slurm, go)
    _told(slurm, first)
    second = _submit(slurm, go, "fault")
    _told(slurm, second)
    go.touch()
    for job_id, other in ((first, second), (second, first)):
        assert slurm.wait(job_id) == "COMPLETED"
        assert any(f"({other})" in said for said in _of_mps(_record(slurm, job_id)))
    until(lambda: not _ours(slurm), "a daemon is left")


def test_a_whole_gpu_has_none(slurm: Sandbox) -> None:
    """`--gres=gpu:1` is not concerned: plain CUDA, as the user wrote it."""
    job_id = slurm.sbatch("--gres=gpu:1", "--wrap", "env | grep -c CUDA_MPS; true")[0]
    assert slurm.wait(job_id) == "COMPLETED"
    assert slurm.output(job_id).strip() == "0"
    assert _record(slurm, job_id)["mps"] is None
    assert _ours(slurm) == []
