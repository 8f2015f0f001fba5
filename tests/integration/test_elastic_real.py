"""Elastic jobs of a real Slurm: real trainings change their size, and their loss goes on."""

import csv
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from slurm_ext.core.actions import Action, parse_action
from slurm_ext.sandbox import Sandbox
from slurm_ext.slurm import CommandClient
from slurm_ext.slurm.requeued import requeued_wait_s
from tests.as_unit import dlqueue_as_unit
from tests.conftest import MakeSandbox
from tests.whole import until

pytestmark = [pytest.mark.slurm, pytest.mark.journey]
pytest.importorskip("torch", reason="the example training needs torch")
TRAINING = Path(__file__).parents[2] / "job_templates" / "examples" / "elastic_train.py"
STEPS, COMPARED = 6000, 1500  # the job never ends by itself: a slow loop still finds it


@pytest.fixture(scope="module")
def slurm(make_module_sandbox: MakeSandbox) -> Sandbox:
    """One node of two GPUs (as Slurm counts them), whose requeued jobs wait for six seconds."""
    slurm = make_module_sandbox(nodes=1, cpus=2, gpus=2)
    conf = slurm.layout.slurm_conf
    soon = re.sub(r"(?m)^AuthInfo=.*", r"\g<0>,cred_expire=5", conf.read_text())
    conf.write_text(soon)
    for daemon in ("slurmctld", *slurm.status()["nodes"]):
        slurm.restart(daemon)
    return slurm


def losses(folder: Path) -> list[tuple[int, int, float]]:
    """Step, size, loss: all that was logged."""
    if not (folder / "loss.csv").exists():
        return []
    with (folder / "loss.csv").open(newline="") as file:
        return [(int(step), int(size), float(loss)) for step, size, loss in csv.reader(file)]


def alone(folder: Path) -> "subprocess.Popen[bytes]":
    """The same training on one GPU, never stopped; no emulated work."""
    folder.mkdir()
    told = {"ELASTIC_FOLDER": str(folder), "ELASTIC_STEPS": str(COMPARED), "ELASTIC_SAMPLE_S": "0"}
    return subprocess.Popen([sys.executable, str(TRAINING)], env=os.environ | told)


def submit(slurm: Sandbox, folder: Path, gpus: int, *more: str) -> int:
    """The example on so many GPUs, with a task for each."""
    folder.mkdir(exist_ok=True)
    body = (
        f"#!/bin/bash\nexport ELASTIC_STEPS={STEPS} ELASTIC_SAMPLE_S=0.001\n"
        f"exec srun --ntasks=$((SLURM_JOB_NUM_NODES * SLURM_GPUS_ON_NODE)) "
        f"{sys.executable} {TRAINING}\n"
    )
    words = (f"--gres=gpu:{gpus}", f"-n{gpus}", "--requeue", "--time=10", f"--chdir={folder}")
    return slurm.sbatch(*words, "--comment=DLQUEUE_ELASTIC=1-2", *more, script=body)[0]


def config(slurm: Sandbox, folder: Path, mode: str) -> Path:
    """Settings of a loop that looks often."""
    path = folder / "dlqueue.toml"
    path.write_text(
        f'[paths]\nstate_dir = "{folder}"\nslurm_conf = "{slurm.layout.slurm_conf}"\n'
        f'kill_file = "{folder}/off"\n'
        f'[elastic]\nmode = "{mode}"\ninterval_s = 0.5\nrestart_s = 1\n'
    )
    return path


def command(slurm: Sandbox, config_file: Path, *more: str) -> list[str]:
    """`dlqueue control --elastic`, as its unit runs it."""
    words = ["control", "--elastic", "--config", str(config_file), *more]
    folders = [config_file.parent, slurm.layout.root]
    return dlqueue_as_unit("dlqueue-elastic", folders, *words)


def moves(folder: Path) -> list[Action]:
    """All that was written."""
    files = sorted((folder / "moves").glob("elastic-*.jsonl"))
    return [parse_action(line) for file in files for line in file.read_bytes().splitlines()]


def test_a_running_training_grows_and_its_loss_goes_on(slurm: Sandbox, tmp_path: Path) -> None:
    """From one GPU to two: each step once and in order, each loss as without a stop."""
    folder = tmp_path / "job"
    job, reference = submit(slurm, folder, 1), alone(tmp_path / "alone")
    until((folder / f"dlqueue-elastic-{job}.json").exists, "it tells nothing", 120)
    argv = command(slurm, config(slurm, tmp_path, "act"))
    loop = subprocess.Popen(argv, env=slurm.env, stderr=subprocess.PIPE, text=True)
    try:
        until(lambda: any(size == 2 for _, size, _ in losses(folder)), "it does not grow", 120)
    finally:
        loop.terminate()
        _, said = loop.communicate()
    assert "Traceback" not in said
    slurm.run(["scancel", str(job)])
    told = losses(folder)
    assert [step for step, _, _ in told] == list(range(1, len(told) + 1))
    assert [size for _, size, _ in told] == sorted(size for _, size, _ in told)
    assert reference.wait() == 0
    unbroken = [loss for _, _, loss in losses(tmp_path / "alone")][: len(told)]
    assert [loss for _, _, loss in told[:COMPARED]] == pytest.approx(unbroken, rel=1e-3)
    done = [(move.done, move.outcome) for move in moves(tmp_path)]
    assert ("requeue 1->2 GPUs", "done") in done
    client = CommandClient(slurm_conf=str(slurm.layout.slurm_conf))
    start = ", start" if requeued_wait_s(client.config(), client.nodes()) == 0 else ""
    assert (f"1->2 GPUs{start}", "done") in done


def test_a_waiting_job_is_made_smaller_only_in_act(slurm: Sandbox, tmp_path: Path) -> None:
    """Shadow writes what it would do; act does it, and the end puts it back."""
    gate = tmp_path / "gate"
    holds = f"#!/bin/sh\nwhile [ ! -e {gate} ]; do sleep 0.05; done\n"
    first = slurm.sbatch("--gres=gpu:1", script=holds)[0]
    until(lambda: slurm.job(first).get("JobState") == "RUNNING", "the first does not run")
    job = slurm.sbatch(
        "--gres=gpu:2", "-n2", "--comment=DLQUEUE_ELASTIC=1-2", "--wrap", f"echo x > {tmp_path}/ran"
    )[0]
    until(lambda: slurm.job(job).get("Reason") in {"Resources", "Priority"}, "it does not wait")
    shadow = subprocess.run(
        command(slurm, config(slurm, tmp_path, "shadow"), "--once", "--json"),
        env=slurm.env,
        capture_output=True,
        text=True,
        check=True,
    )
    assert [move["done"] for move in json.loads(shadow.stdout)["moves"]] == ["2->1 GPUs"]
    assert slurm.job(job)["JobState"] == "PENDING"
    act = subprocess.run(
        command(slurm, config(slurm, tmp_path, "act"), "--once", "--json"),
        env=slurm.env,
        capture_output=True,
        text=True,
        check=True,
    )
    assert [move["outcome"] for move in json.loads(act.stdout)["moves"]] == ["done"]
    assert slurm.wait(job) == "COMPLETED"
    gate.touch()
    assert slurm.wait(first) == "COMPLETED"
