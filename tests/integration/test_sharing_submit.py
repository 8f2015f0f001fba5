"""Sharing a GPU on the real Slurm: who agreed and keeps its floor asks for a part, nobody else."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.core.gpu_sharing import CorunMeasurement, SoloProfile
from slurm_ext.core.job_keys import job_signature, keys_of
from slurm_ext.core.records import Submission
from slurm_ext.model.slowdown.artifact import serialize
from slurm_ext.model.slowdown.model import KERNELS, slowdown_model
from slurm_ext.sandbox import Sandbox
from slurm_ext.training.promotion import install
from tests.conftest import MakeSandbox
from tests.releases import shares_gpus_per_task
from tests.whole import ACTING, WHOLE, asked, until

pytestmark = pytest.mark.slurm

SHARING: dict[str, Any] = {
    **ACTING,
    "advisor.reconcile_s": 1.0,
    "sharing.mode": "act",
    "sharing.partitions": ["main"],
    "sharing.gpu_mem_mib": 40 * 1024,
}
CLI = (sys.executable, "-m", "slurm_ext.cli")
LIMITS = "AccountingStorageEnforce=limits,qos\n"
DEVICE = "NVIDIA A100-SXM4-40GB"
PART = "gres:mps:50"
# A script that names the variable keeps its GPU: it is looked for without being named.
BATCH = """\
asks=$(env | grep -cE '^SLURM_[G]PUS(_PER_NODE|_PER_TASK)?=')
echo "batch $CUDA_VISIBLE_DEVICES ${CUDA_MPS_ACTIVE_THREAD_PERCENTAGE:-all} $asks"
"""
STEP = "srun bash -c 'echo step $CUDA_VISIBLE_DEVICES'\n"
KIND = f"#!/bin/bash\n{BATCH}{STEP}"
WAITING = f"#!/bin/bash\n{BATCH}while [ ! -e go ]; do sleep 0.1; done\n"
STRANGER = f"#!/bin/bash\n# nobody has seen this one\n: unknown\n{BATCH}{STEP}"


def learned() -> dict[str, bytes]:
    """A model that has seen both scripts beside each other and themselves, at 97 % of alone."""
    keys = [job_signature(keys_of(Submission(script=s, user_name="root"))) for s in (KIND, WAITING)]
    names = [key for key in keys if key is not None]
    met = [
        CorunMeasurement(job=one, partners=(other,), speed=0.97, seconds=3600, device=DEVICE)
        for one in names
        for other in names
        for _ in range(6)
    ]
    solos = {name: SoloProfile(key=name, gpu_mem_bytes=4e9) for name in names}
    return serialize(
        slowdown_model(met, solos), KERNELS, {"runs": len(met), "window_s": [0.0, 1.0]}
    )


@pytest.fixture(scope="module")
def slurm(make_module_sandbox: MakeSandbox) -> Sandbox:
    """All of dlqueue, two GPUs that can be shared, and a model that knows two scripts."""
    slurm = make_module_sandbox(
        **WHOLE,
        gpus=2,
        gpu_type="a100",
        sharing="mps",
        accounting=True,
        settings=SHARING,
        slurm_conf=LIMITS,
    )
    for command in (
        "add qos gpus set MaxTRESPerUser=gres/gpu=1",
        "add qos both set MaxTRESPerUser=gres/gpu=1,gres/mps=100",
        "modify user root set qos+=gpus,both defaultqos=normal",
    ):
        slurm.run(["sacctmgr", "-i", *command.split()])
    slurm.restart("advisor")  # it reads limits once a minute
    install(slurm.path("dlqueue/models/slowdown"), "s-test", learned())
    until(lambda: shares(slurm), "the advisor does not share")
    return slurm


def shares(slurm: Sandbox) -> bool:
    """Whether a question of `sbatch --test-only` is told that the job would share."""
    done = slurm.run(["sbatch", "--test-only", "--gres=gpu:1"], input=KIND)
    return "shares its GPU" in done.stderr


def ran(slurm: Sandbox, *argv: str, script: str = KIND, **env: str) -> tuple[str, list[str], str]:
    """What a job asked for in the end, the lines that it wrote, what sbatch said."""
    job_id, said = slurm.sbatch(*argv, script=script, env=env)
    assert slurm.wait(job_id) == "COMPLETED", slurm.output(job_id)
    job = slurm.job(job_id)
    gres = job.get("TresPerNode") or job.get("TresPerJob") or job.get("TresPerTask") or ""
    return gres.replace("gres/", "gres:"), slurm.output(job_id).splitlines(), said


@pytest.mark.parametrize(
    "argv",
    [
        ("--gres=gpu:1",),
        ("--gres=gpu:a100:1",),
        ("--gpus=1",),
        ("--gpus=a100:1",),
        ("--gpus-per-node=1",),
        ("-n1", "--gpus-per-task=1"),
    ],
    ids=lambda argv: argv[-1].strip("-"),
)
def test_one_gpu_becomes_a_part_of_one(slurm: Sandbox, argv: tuple[str, ...]) -> None:
    """However it was asked for: half a GPU, told in one line, and srun inside the script works."""
    gres, lines, said = ran(slurm, *argv)
    if "--gpus-per-task=1" in argv and not shares_gpus_per_task(slurm):
        assert (gres, said) == ("gres:gpu=1", "")
        return
    assert gres == PART, said
    assert lines == ["batch 0 50 0", "step 0"]
    assert said.count("\n") == 1
    assert "at most" in said
    assert "Opt out: --comment=dlqueue=off" in said


def test_two_jobs_of_one_user_are_on_one_gpu_together(slurm: Sandbox) -> None:
    """Both run at the same time and see the same device; the ledger says why."""
    go = slurm.path("out/go")
    jobs = [slurm.sbatch("--gres=gpu:1", script=WAITING)[0] for _ in range(2)]
    try:
        running = lambda: all(slurm.job(j)["JobState"] == "RUNNING" for j in jobs)  # noqa: E731
        until(running, "they do not run together")
    finally:
        go.touch()
    assert {slurm.wait(job) for job in jobs} == {"COMPLETED"}
    go.unlink()
    assert [slurm.output(job) for job in jobs] == ["batch 0 50 0\n"] * 2
    sql = "SELECT sharing FROM decisions WHERE job_id = ? AND sharing IS NOT NULL"
    ((text,),) = until(lambda: asked(slurm, sql, jobs[1]), "no decision of it")
    told = json.loads(text)
    assert (told["share"], told["done"], told["gres"]) == (True, True, "mps:50")
    assert told["worst"] >= told["floor"] == 0.85
    assert told["evidence"] == "these two were measured together"


@pytest.mark.parametrize(
    ("argv", "env", "script"),
    [
        (("--comment=dlqueue=off",), {}, KIND),
        (("--comment=dlqueue=alone",), {}, KIND),
        ((), {"DLQUEUE_SHARE": "0"}, KIND),
        (("--qos=gpus",), {}, KIND),
        ((), {}, STRANGER),
        (("--gpu-bind=closest",), {}, KIND),
    ],
    ids=["off", "alone", "share_0", "qos_on_gpus", "unknown_script", "bound"],
)
def test_who_did_not_agree_or_is_not_known_has_a_whole_gpu(
    slurm: Sandbox, argv: tuple[str, ...], env: dict[str, str], script: str
) -> None:
    """The job is as its user wrote it, and runs; nothing is said of sharing."""
    gres, lines, said = ran(slurm, "--gpus=1", *argv, script=script, **env)
    assert gres == "gres:gpu:1"
    assert lines == ["batch 0 all 1", "step 0"]
    assert "shares its GPU" not in said


def test_a_qos_that_counts_parts_too_lets_a_job_share(slurm: Sandbox) -> None:
    """Where the limit holds for what is converted, converting escapes nothing."""
    assert ran(slurm, "--gres=gpu:1", "--qos=both")[0] == PART


def test_predict_and_explain_say_so(slurm: Sandbox, tmp_path: Path) -> None:
    """People read the verdict before they submit, and afterwards."""
    script = tmp_path / "job.sh"
    script.write_text(KIND.replace("\n", "\n#SBATCH --gres=gpu:1\n", 1))
    said = json.loads(slurm.run([*CLI, "predict", "--json", str(script)]).stdout)
    assert (said["sharing"]["share"], said["sharing"]["gres"]) == (True, "mps:50")
    assert "sharing:" in slurm.run([*CLI, "predict", str(script)]).stdout
    job_id, _ = slurm.sbatch(str(script))
    slurm.wait(job_id)
    row = lambda: asked(slurm, "SELECT 1 FROM decisions WHERE job_id = ?", job_id)  # noqa: E731
    until(row, "no decision of it")
    assert "shared:   mps:50" in slurm.run([*CLI, "explain", str(job_id)]).stdout


def test_a_question_leaves_no_orphan(slurm: Sandbox) -> None:
    """What `sbatch --test-only` asked is gone from the ledger, also beside a job that opted out."""
    assert shares(slurm)
    proposed = "SELECT count(*) FROM decisions WHERE state = 'proposed'"
    until(lambda: asked(slurm, proposed) != [(0,)], "the question is not in the ledger")
    assert ran(slurm, "--gres=gpu:1", "--comment=dlqueue=off")[0] == "gres:gpu:1"
    until(lambda: asked(slurm, proposed) == [(0,)], "an orphan stays in the ledger")


def test_without_an_advisor_a_gpu_is_whole(slurm: Sandbox) -> None:
    """The last test of this cluster: nobody answers, and jobs go as written."""
    slurm.stop("advisor")
    assert ran(slurm, "--gpus=1")[:2] == ("gres:gpu:1", ["batch 0 all 1", "step 0"])
