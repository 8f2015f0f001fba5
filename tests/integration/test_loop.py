"""The closed loop on a real Slurm: what one run taught changes the next submission, and only it."""

import json
import os
import re
import signal
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.sandbox import Sandbox
from tests.conftest import MakeSandbox
from tests.whole import (
    ACTING,
    WHOLE,
    advisor_runs,
    answers,
    asked,
    completed,
    dlqueue,
    teach,
    until,
)

pytestmark = pytest.mark.slurm

TRAINING = '''
import os, time, torch
from torch.utils.data import DataLoader, Dataset

os.environ["DLQUEUE_EMULATED"] = "1"  # its step sleeps where a GPU would compute

class Slow(Dataset):
    """Ten milliseconds of storage for each sample, and an augmentation of its own."""

    def __len__(self):
        return 160

    def __getitem__(self, index):
        time.sleep(0.01)
        return torch.tensor([index]), index

for epoch in range(2):
    seen = []
    for batch, indices in DataLoader(Slow(), batch_size=8, shuffle=epoch == 1):
        time.sleep(0.005)
        seen += indices.tolist()
    print("epoch", epoch, len(seen), sorted(seen) == list(range(160)), seen == sorted(seen))
print("workers", DataLoader(Slow()).num_workers)
'''
SCRIPT = "#!/bin/bash\n#SBATCH --job-name=closed-loop\npython3 train.py\n"
TRAINED = ["epoch 0 160 True True", "epoch 1 160 True False", "workers 0"]
SHOW = "#!/bin/bash\nenv | grep -E '^(DLQUEUE|SLURM_CPUS_PER_TASK|SRUN_CPUS)' | sort\n"
ADVICE = re.compile(r"sbatch: dlqueue: .*workers 1 -> \d+: about [\d.]+x faster .*dlqueue=off\n")
TRIED = "SELECT state, job_id FROM decisions WHERE job_name = 'tried'"
PARTITIONS = "\n".join(f"PartitionName={name} Nodes=ALL" for name in ("shady", "told", "none"))
LAYOUT = "it chooses sockets, cores or threads of its own"
MODES = {
    "mode.partition.shady": "shadow",
    "mode.partition.told": "advise",
    "mode.partition.none": "off",
    "mode.account.careful": "advise",
}


@pytest.fixture(scope="module")
def slurm(make_module_sandbox: MakeSandbox) -> Sandbox:
    """All of dlqueue, acting, with partitions of the other modes; jobs called `known` are known."""
    settings = {**ACTING, **MODES}
    sandbox = make_module_sandbox(**WHOLE, gpus=1, slurm_conf=PARTITIONS, settings=settings)
    teach(sandbox, "known")
    return sandbox


@pytest.fixture(scope="module", autouse=True)
def tried(slurm: Sandbox) -> None:
    """An early `sbatch --test-only`, of which the ledger must have forgotten everything later."""
    teach(slurm, "tried")
    done = slurm.run(["sbatch", "--test-only", "-Jtried"], input=SHOW)
    assert "dlqueue: " in done.stderr
    until(lambda: asked(slurm, TRIED), "the question never came to the ledger")


def held(slurm: Sandbox, *argv: str, script: str = SHOW, env: Any = None) -> tuple[int, str]:
    """A job called `known` that need not run: its id and what sbatch said."""
    return slurm.sbatch("-H", "-Jknown", *argv, script=script, env=env)


def left_alone(slurm: Sandbox, job_id: int, said: str, cpus: str) -> None:
    """Nothing of the job was changed; nothing was promised."""
    job = slurm.job(job_id)
    assert (job["CPUs/Task"], "faster" in said) == (cpus, False)


def environment(slurm: Sandbox, *argv: str, **options: Any) -> tuple[dict[str, str], str]:
    """What a job called `known` finds of ours in its environment, and what sbatch said."""
    job_id, said = slurm.sbatch("-Jknown", *argv, script=SHOW, **options)
    assert slurm.wait(job_id) == "COMPLETED"
    lines = (line.partition("=") for line in slurm.output(job_id).splitlines())
    return {name: value for name, _, value in lines}, said


def test_the_second_submission_is_right_sized_by_the_first(slurm: Sandbox, tmp_path: Path) -> None:
    """The same file again gets workers and CPUs; the samples and their order are the user's."""
    (tmp_path / "train.py").write_text(TRAINING)
    path = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    before = advisor_runs(slurm)
    first, said = slurm.sbatch(script=SCRIPT, env=path, cwd=tmp_path)
    assert said == ""
    completed(slurm, first)
    until(lambda: advisor_runs(slurm) > before, "the first run taught nothing")
    second, said = slurm.sbatch(script=SCRIPT, env=path, cwd=tmp_path)
    assert re.search(r"dlqueue: .*workers 0 -> \d+: about [\d.]+x faster", said)
    completed(slurm, second)
    outputs = [slurm.output(job_id).splitlines() for job_id in (first, second)]
    assert outputs[0] == outputs[1] == TRAINED
    assert_measured(slurm, first, second)


def assert_measured(slurm: Sandbox, first: int, second: int) -> None:
    """The history says that more workers worked, and faster; the ledger and people's commands."""
    sql = "SELECT workers, samples_per_s FROM loader_runs JOIN runs ON runs.id = run WHERE job_id=?"
    rows = [until(partial(asked, slurm, sql, job), "no figures") for job in (first, second)]
    ((workers_before, before),), ((workers_after, after),) = rows
    assert (workers_before, workers_after > 1) == (0, True)
    assert after > before
    explained = dlqueue(slurm, "explain", str(second))
    assert "expected:" in explained
    assert re.search(r"done: +changed", explained)
    assert f"outcome:  COMPLETED on {slurm.nodes[0]}" in explained
    assert str(second) in dlqueue(slurm, "history", "ls")
    assert "closed-loop" in dlqueue(slurm, "history", "show", str(second))


def test_predict_says_what_sbatch_would_do(slurm: Sandbox, tmp_path: Path) -> None:
    """Asked of the running advisor, nothing is recorded, and the answer is the submission's."""
    teach(slurm, "only-asked")
    script = tmp_path / "job.sh"
    script.write_text("#!/bin/bash\n#SBATCH --job-name=only-asked\ntrue\n")
    answer = json.loads(dlqueue(slurm, "predict", "--json", str(script)))
    assert (answer["action"], answer["refused"]) == ("change", None)
    for option, reason in (("--partition=nowhere", "partition"), ("--frob", "unrecognized option")):
        script.write_text(f"#!/bin/bash\n#SBATCH {option}\ntrue\n")
        assert reason in json.loads(dlqueue(slurm, "predict", "--json", str(script)))["refused"]
    slurm.sbatch("-H", "-Jonly-submitted", script=SHOW)
    sql = "SELECT job_name FROM decisions WHERE job_name LIKE 'only-%'"
    until(lambda: asked(slurm, sql), "the ledger has not come so far")
    assert asked(slurm, sql) == [("only-submitted",)]


def test_acting(slurm: Sandbox) -> None:
    """The job gets its workers, its token, the probe's folder; CPUs move with all their fields."""
    found, said = environment(slurm)
    assert ADVICE.fullmatch(said)
    assert int(found["DLQUEUE_NUM_WORKERS"]) > 1
    assert re.fullmatch(r"d1-[0-9a-f]{16}", found["DLQUEUE_DECISION"])
    assert found.get("SLURM_CPUS_PER_TASK") == found.get("SRUN_CPUS_PER_TASK")
    assert "DLQUEUE_NUM_THREADS" not in found  # Slurm keeps no cores here: torch has the node's


def test_a_job_from_inside_a_job_is_not_moved_by_what_that_one_was_told(slurm: Sandbox) -> None:
    """It inherits the variables with its environment; the advisor empties them."""
    inherited = "DLQUEUE_DECISION=d1-00000000000000ff,DLQUEUE_NUM_WORKERS=9,DLQUEUE_NUM_THREADS=1"
    found, _ = environment(slurm, "-pshady", "-c2", f"--export=ALL,{inherited}")
    assert (found["DLQUEUE_NUM_WORKERS"], found["DLQUEUE_NUM_THREADS"]) == ("", "")
    assert found["DLQUEUE_DECISION"] != "d1-00000000000000ff"


def test_an_opted_out_job_from_inside_a_job_has_nothing_of_that_one(slurm: Sandbox) -> None:
    """Nobody looks at it on its way: its node takes out what it inherited, the CPUs of srun too."""
    first, _ = environment(slurm, "-pshady", "-c2")
    names = ("DLQUEUE_RUN_DIR", "DLQUEUE_TOLD", "DLQUEUE_DECISION")
    inherited = [*(f"{name}={first[name]}" for name in names), "DLQUEUE_NUM_WORKERS=9"]
    export = ",".join(["--export=ALL", *inherited, "SRUN_CPUS_PER_TASK=8"])
    found, _ = environment(slurm, "--comment=dlqueue=off", "-c1", export)
    assert {*found} == {"SLURM_CPUS_PER_TASK", "DLQUEUE_CONFIG", "DLQUEUE_SANDBOX"}


def test_shadow_adds_the_token_and_nothing_else(slurm: Sandbox) -> None:
    """What would have been done is in the ledger; the user sees nothing."""
    found, said = environment(slurm, "-pshady", "-c2")
    token = found.pop("DLQUEUE_DECISION")
    assert found.pop("DLQUEUE_TOLD") == token
    del found["DLQUEUE_CONFIG"], found["DLQUEUE_SANDBOX"], found["DLQUEUE_RUN_DIR"]
    assert (said, found) == ("", {"SLURM_CPUS_PER_TASK": "2"})
    sql = "SELECT mode, action FROM decisions WHERE token = ?"
    answers(slurm, [("shadow", "change")], sql, token)


@pytest.mark.parametrize("argv", ["-ptold", "-Acareful"])
def test_advise_tells_and_changes_nothing(slurm: Sandbox, argv: str) -> None:
    """By partition or by account: one line that says so, and the job as written."""
    found, said = environment(slurm, argv, "-c2")
    assert re.match(r"sbatch: dlqueue advises .*workers 1 -> ", said)
    assert said.endswith("Nothing was changed.\n")
    assert found["SLURM_CPUS_PER_TASK"] == "2"
    assert "DLQUEUE_NUM_WORKERS" not in found


@pytest.mark.parametrize("argv", [("-pnone",), ("--comment=mine, dlqueue=off",)])
def test_off_means_nothing_at_all(slurm: Sandbox, argv: tuple[str, ...]) -> None:
    """A partition that is off, and a job whose comment opts out: no token, not a word."""
    found, said = environment(slurm, *argv, "-c2")
    assert (said, "DLQUEUE_DECISION" in found) == ("", False)
    assert "DLQUEUE_NUM_WORKERS" not in found


def test_opt_out_by_environment(slurm: Sandbox) -> None:
    """DLQUEUE=off in the submitting shell."""
    found, said = environment(slurm, "-c2", env={"DLQUEUE": "off"})
    assert (said, "DLQUEUE_DECISION" in found) == ("", False)


def test_the_kill_file_stops_everything_at_once(slurm: Sandbox) -> None:
    """Submissions go as written, hooks leave no trace; without the file all is as before."""
    kill_file = Path(slurm.settings["paths.kill_file"])
    kill_file.touch()
    try:
        found, said = environment(slurm, "-c2")
        assert (said, "DLQUEUE_DECISION" in found, "DLQUEUE_RUN_DIR" in found) == ("", False, False)
    finally:
        kill_file.unlink()
    assert ADVICE.fullmatch(held(slurm)[1])


@pytest.mark.parametrize("argv", ["-a0-3", "--exclusive"])
def test_arrays_and_whole_nodes_are_left_alone(slurm: Sandbox, argv: str) -> None:
    """Their CPUs are not one task's alone."""
    left_alone(slurm, *held(slurm, argv, "-c2"), "2")


@pytest.mark.parametrize(
    ("argv", "why"),
    [
        ("--hint=nomultithread", LAYOUT),
        ("--threads-per-core=1", LAYOUT),
        ("--ntasks-per-core=1", LAYOUT),
        ("-B1", LAYOUT),
        ("--gpus=1 --gres-flags=enforce-binding", LAYOUT),
        ("--mincpus=3", "--mincpus sets its CPUs"),
    ],
)
def test_a_layout_of_its_own_is_left_alone(slurm: Sandbox, argv: str, why: str) -> None:
    """More CPUs would not be where it may run: Slurm would refuse it, or have it wait for ever."""
    left_alone(slurm, *held(slurm, *argv.split(), "-c2"), "2")
    held(slurm, *argv.split(), f"-Jlayout {argv}")
    reason = f"SELECT reason FROM decisions WHERE job_name = 'layout {argv}'"
    until(lambda: asked(slurm, reason), "the decision never came to the ledger")
    assert asked(slurm, reason)[0][0] == why


def test_gpus_with_their_cpus_are_left_alone(slurm: Sandbox) -> None:
    """--cpus-per-gpu is the user's word."""
    job_id, said = held(slurm, "--gpus=1", "--cpus-per-gpu=3")
    asked = slurm.job(job_id)["CpusPerTres"].replace("gres/", "gres:")
    assert (asked, "faster" in said) == ("gres:gpu:3", False)


def test_a_reservation_is_left_alone(slurm: Sandbox) -> None:
    """What was reserved is used as it was planned."""
    reservation = "ReservationName=ours StartTime=now Duration=10 Users=root CoreCnt=4"
    slurm.run(["scontrol", "create", "reservation", *reservation.split(), "Nodes=n1"])
    try:
        job_id, said = held(slurm, "--reservation=ours", "-c2")
        left_alone(slurm, job_id, said, "2")
        slurm.run(["scancel", str(job_id)])
    finally:
        slurm.run(["scontrol", "delete", "ReservationName=ours"])


def test_a_heterogeneous_job_is_left_alone(slurm: Sandbox) -> None:
    """No part of it is touched, nothing is said."""
    job_id, said = slurm.sbatch("-H", "-Jknown", "-c1", ":", "-c2", "-Jknown", script=SHOW)
    assert said == ""
    parts = slurm.run(["squeue", "-h", "-j", str(job_id), "-O", "HetJobOffset,cpus-per-task"])
    assert sorted(line.split() for line in parts.stdout.splitlines()) == [["0", "1"], ["1", "2"]]


@pytest.mark.parametrize("command", ["srun", "salloc"])
def test_interactive_jobs_are_left_alone(slurm: Sandbox, command: str) -> None:
    """They start at once, on what they asked for, and their terminal stays clean."""
    show = "echo $SLURM_JOB_CPUS_PER_NODE $DLQUEUE_NUM_WORKERS"
    done = slurm.run([command, "-Jknown", "-c2", "bash", "-c", show])
    assert "2" in done.stdout.split()
    assert "dlqueue" not in done.stdout + done.stderr


def test_test_only_leaves_no_orphan(slurm: Sandbox) -> None:
    """What `sbatch --test-only` asked looks like a submission; the ledger forgets it soon."""
    until(lambda: not asked(slurm, TRIED), "the ledger keeps an orphan")
    real, _ = slurm.sbatch("-Jtried", script=SHOW)
    completed(slurm, real)
    answers(slurm, [("claimed", real)], TRIED)


def test_holdout_by_sighup(make_sandbox: MakeSandbox) -> None:
    """SIGHUP brings in a control group: about half is left as written, said nothing, and noted."""
    slurm = make_sandbox(**WHOLE, settings={**ACTING, "policy.holdout_share": 0.0})
    teach(slurm, "known")
    toml = slurm.path("etc/dlqueue.toml")
    toml.write_text(toml.read_text().replace("holdout_share = 0.0", "holdout_share = 0.5"))
    slurm_pid = slurm.status()["daemons"]["advisor"]
    os.kill(slurm_pid, signal.SIGHUP)
    until(
        lambda: "advisor.service.refresh: settings read again" in slurm.log("advisor"),
        "SIGHUP was not heeded",
    )
    submitted = [held(slurm) for _ in range(40)]
    told = sum(bool(ADVICE.fullmatch(said)) for _, said in submitted)
    assert told + sum(said == "" for _, said in submitted) == 40
    assert 5 <= told <= 35  # outside with a probability of two in a million
    rows = until(
        lambda: r if len(r := asked(slurm, "SELECT holdout FROM decisions")) == 40 else None, ""
    )
    assert sum(not held_out for (held_out,) in rows) == told
