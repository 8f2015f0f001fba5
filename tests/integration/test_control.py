"""The node's controller on a real Slurm, over real trainings: shares, gates, giving them back."""

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.sandbox import Sandbox
from tests.conftest import MakeSandbox
from tests.whole import until

pytestmark = [pytest.mark.slurm, pytest.mark.root, pytest.mark.journey]

CPU = Path("/sys/fs/cgroup/cpu")
TRAINING = """
import os, sys, time, torch
from torch.utils.data import DataLoader, Dataset

os.environ["DLQUEUE_EMULATED"] = "1"  # its step sleeps where a GPU would compute

class Samples(Dataset):
    def __len__(self):
        return 1_000_000

    def __getitem__(self, index):
        end = time.thread_time() + float(sys.argv[1])
        while time.thread_time() < end:
            pass
        return torch.tensor(index)

seen = []
for batch in DataLoader(Samples(), batch_size=4, num_workers=2):
    time.sleep(0.02 if sys.argv[1] == "0.0002" else 0.002)
    seen += batch.tolist()
    if os.path.exists(sys.argv[2]):
        break
print("in order", seen == list(range(len(seen))), len(seen))
"""
HEAVY, LIGHT = "0.004", "0.0002"  # CPU seconds of a sample
SETTINGS = {
    "node.probe": True,
    "node.python": sys.executable,
    "control.mode": "act",
    "control.allocator": "divide",
    "control.grain_cores": 0.25,
    "control.max_workers": 6,
    "control.interval_s": 0.5,
    "control.cooldown_s": 1.0,
    "control.may_use_idle_cpus": True,
}


@pytest.fixture(scope="module")
def slurm(make_module_sandbox: MakeSandbox) -> Iterator[Sandbox]:
    """A node of eight CPUs by Slurm's count, with hooks, probe and the controller."""
    if not (CPU / "cpu.cfs_period_us").exists():
        pytest.skip("needs cgroup version 1 with a cpu controller of its own")
    sandbox = make_module_sandbox(hooks=True, control=True, cpus=8, settings=SETTINGS)
    sandbox.path("train.py").write_text(TRAINING)
    yield sandbox
    sandbox.stop(controller(sandbox))  # it gives back what the sandbox's end would leave


def train(slurm: Sandbox, cost: str, end: Path, cpus: int = 4) -> int:
    """A training as a job, which goes on until there is a file `end`."""
    script = f"#!/bin/sh\nexec python3 {slurm.path('train.py')} {cost} {end}\n"
    path = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    return slurm.sbatch(f"-c{cpus}", script=script, env=path)[0]


def folder(slurm: Sandbox) -> Path:
    """The controller's own."""
    return slurm.layout.node(slurm.nodes[0]) / "dlqueue" / "control"


def row(slurm: Sandbox, job: int) -> dict[str, Any]:
    """What the controller says of a job; empty where it does not control it."""
    try:
        status = json.loads((folder(slurm) / "status.json").read_text())
    except FileNotFoundError:
        return {}
    return next((r for r in status["jobs"] if r["job"] == f"{job}.0"), {})


def weight(slurm: Sandbox, job: int) -> int | None:
    """Its CPU weight, as the kernel has it; None: the job has none of ours."""
    try:
        group = CPU / f"dlqueue_{slurm.nodes[0]}_{job}"
        return int((group / "cpu.shares").read_text())
    except FileNotFoundError:
        return None


def gate(slurm: Sandbox, job: int) -> Path:
    """The job's gate file."""
    return slurm.layout.node(slurm.nodes[0]) / "dlqueue" / "run" / f"{job}.0" / "workers"


def controller(slurm: Sandbox) -> str:
    """The daemon's name."""
    return f"control-{slurm.nodes[0]}"


def more_than_its_share(slurm: Sandbox, job: int) -> bool:
    """Whether a job with a share of four units was given more."""
    return (row(slurm, job).get("units") or 0) > 4


def held_to_what_is_said(slurm: Sandbox, job: int) -> bool:
    """Whether the kernel weighs the job as the controller reports, and no less than its share.

    A job that sleeps much weighs a multiple of that: it is then held to its cores by a quota.
    """
    said = row(slurm, job)
    least = max(said.get("units") or -1, said.get("share_units") or 0)
    return (weight(slurm, job) or 0) >= least * 256 > 0


@pytest.fixture
def pair(slurm: Sandbox) -> Any:
    """A heavy and a light training, once the heavy one has got what the light one spares."""
    never = slurm.path("never")
    heavy, light = train(slurm, HEAVY, never), train(slurm, LIGHT, never)
    until(lambda: more_than_its_share(slurm, heavy), "the heavy job got no more than its share")
    yield heavy, light
    for job in (heavy, light):
        slurm.run(["scancel", str(job)], check=False)
        slurm.wait(job)


def test_a_killed_job_frees_its_share_and_nothing_stays(
    slurm: Sandbox, pair: tuple[int, int]
) -> None:
    """Cores go where they count; the light job is killed (-9), and its cores go on; epilogs end."""
    heavy, light = pair
    until(lambda: held_to_what_is_said(slurm, heavy), "the kernel was told something else")
    until(lambda: 0 < (row(slurm, light).get("units") or 0) < 4, "the light job gives nothing")
    until(gate(slurm, heavy).exists, "no gate")
    slurm.run(["scancel", "-s", "KILL", "--full", str(light)])
    slurm.wait(light)
    until(lambda: not row(slurm, light), "the killed job is still a tenant")
    until(lambda: row(slurm, heavy).get("units") == 8, "what it left was not given on")
    assert weight(slurm, light) is None
    slurm.run(["scancel", str(heavy)])
    slurm.wait(heavy)
    until(lambda: weight(slurm, heavy) is None, "a group of ours stays")
    slurm.wait_for_nodes()


def test_an_end_and_a_death_of_the_controller_give_everything_back(
    slurm: Sandbox, pair: tuple[int, int]
) -> None:
    """SIGTERM at once; after kill -9 the next start, or --restore; the jobs go on meanwhile."""
    jobs = pair
    name = controller(slurm)
    slurm.stop(name, signal.SIGTERM)
    assert [weight(slurm, job) for job in jobs] == [None, None]
    assert not any(gate(slurm, job).exists() for job in jobs)
    slurm.start(name)
    until(lambda: more_than_its_share(slurm, jobs[0]), "a new controller does not act")
    until(lambda: None not in [weight(slurm, job) for job in jobs], "it acts on one of them only")
    slurm.stop(name, signal.SIGKILL)
    assert None not in [weight(slurm, job) for job in jobs]
    config = slurm.layout.node(slurm.nodes[0]) / "dlqueue.toml"
    argv = [sys.executable, "-m", "slurm_ext.cli", "control", "--restore", "--json"]
    said = slurm.run([*argv, "--config", str(config)]).stdout
    assert json.loads(said) == {"restored": 2}
    assert [weight(slurm, job) for job in jobs] == [None, None]
    assert not any(gate(slurm, job).exists() for job in jobs)
    assert {slurm.job(job)["JobState"] for job in jobs} == {"RUNNING"}
    slurm.start(name)


def test_shadow_only_says_and_the_kill_file_stops(slurm: Sandbox) -> None:
    """In shadow mode decisions are recorded, and no group, gate or sample is any other.

    A new mode is taken up on SIGHUP; a file that is no settings file changes nothing.
    """
    name = controller(slurm)
    config = slurm.layout.node(slurm.nodes[0]) / "dlqueue.toml"
    acting = config.read_text()
    slurm.stop(name)
    config.write_text(acting.replace('control.mode = "act"', 'control.mode = "shadow"'))
    slurm.start(name)
    end = slurm.path("end")
    heavy, light = train(slurm, HEAVY, end), train(slurm, LIGHT, end)
    until(lambda: (row(slurm, heavy).get("wanted_units") or 0) > 4, "it would give no more")
    assert [weight(slurm, job) for job in (heavy, light)] == [None, None]
    assert not gate(slurm, heavy).exists()
    until((folder(slurm) / "decisions.jsonl").exists, "nothing is recorded")
    ledger = (folder(slurm) / "decisions.jsonl").read_text().splitlines()
    assert json.loads(ledger[-1])["acted"] is False
    pid = slurm.status()["daemons"][name]
    config.write_text("[control\n")
    os.kill(pid, signal.SIGHUP)
    until(lambda: "settings stay as they were" in slurm.log(name), "the fault is not told")
    config.write_text(acting)
    os.kill(pid, signal.SIGHUP)
    until(lambda: weight(slurm, heavy) is not None, "it does not act")
    assert slurm.status()["daemons"][name] == pid
    slurm.path("etc/off").touch()
    until(lambda: weight(slurm, heavy) is None, "the kill file is not heeded")
    slurm.path("etc/off").unlink()
    end.touch()
    for job in (heavy, light):
        assert slurm.wait(job) == "COMPLETED"
        assert "in order True " in slurm.output(job)
