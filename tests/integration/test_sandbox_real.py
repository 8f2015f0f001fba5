"""The sandbox is a real Slurm: it comes up, runs jobs, and goes."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from slurm_ext.core.errors import SandboxError, SlurmError
from slurm_ext.sandbox import Sandbox, SandboxSpec
from slurm_ext.sandbox.control import MARK
from slurm_ext.sandbox.processes import bearing
from slurm_ext.slurm import CommandClient
from tests.whole import until

pytestmark = pytest.mark.slurm
MakeSandbox = Callable[..., Sandbox]
CLI = (sys.executable, "-m", "slurm_ext.cli", "sandbox")


def processes_of(sandbox: Sandbox) -> list[int]:
    """Whatever still runs of a sandbox."""
    return bearing(f"{MARK}={sandbox.layout.root}")


def test_a_job_runs_on_every_node(sandbox: Sandbox) -> None:
    """Several slurmd on one machine are several nodes with the CPUs that were asked for."""
    job, said = sandbox.sbatch("-N2", "-n2", "-c4", "--wrap", "srun printenv SLURMD_NODENAME")
    assert sandbox.wait(job) == "COMPLETED"
    assert said == ""
    assert sorted(sandbox.output(job).split()) == list(sandbox.nodes)


def test_a_job_that_needs_more_than_there_is_is_refused(sandbox: Sandbox) -> None:
    """Pretended counts are limits; what sbatch said is in the error."""
    with pytest.raises(SlurmError, match="node configuration is not available"):
        sandbox.sbatch("-c5", "--wrap", "true")


def test_status_tells_what_runs(sandbox: Sandbox) -> None:
    """Every daemon has a pid, every node is known to slurmctld."""
    status = sandbox.status()
    assert status["up"]
    assert set(status["daemons"]) == {"munged", "slurmctld", "n1", "n2"}
    assert set(status["nodes"]) == {"n1", "n2"}


def test_down_leaves_no_process_and_no_folder(make_sandbox: MakeSandbox) -> None:
    """Jobs' processes, those in sessions of their own included, end with the sandbox."""
    sandbox = make_sandbox(state_on_tmpfs=True)
    job, _ = sandbox.sbatch("--wrap", "setsid sleep 1000 & sleep 1000")
    until(lambda: sandbox.job(job).get("JobState") == "RUNNING", "the job does not start")
    memory = sandbox.path("state").resolve()
    assert memory.is_relative_to("/dev/shm")
    sandbox.down()
    assert processes_of(sandbox) == []
    assert not sandbox.layout.root.exists()
    assert not memory.exists()


def test_sandboxes_stand_side_by_side(make_sandbox: MakeSandbox, sandbox: Sandbox) -> None:
    """A job of one is unknown to the other; taking one down leaves the other up."""
    other = make_sandbox()
    job, _ = other.sbatch("--job-name=other", "--wrap", "true")
    assert other.wait(job) == "COMPLETED"
    assert "other" not in sandbox.run(["squeue", "-t", "all", "-h", "-o", "%j"]).stdout.split()
    mine, _ = sandbox.sbatch("--wrap", "true")
    assert abs(job - mine) > 1000  # files and ports named by jobs are each one's own
    other.down()
    assert sandbox.status()["up"]


def test_the_same_folder_is_used_once(make_sandbox: MakeSandbox) -> None:
    """A second `up` in a running sandbox's folder is an error and disturbs nothing."""
    sandbox = make_sandbox()
    with pytest.raises(SandboxError, match="is up in"):
        Sandbox(sandbox.layout.root).up()
    assert sandbox.status()["up"]


def test_a_folder_with_something_else_is_left_alone(short_folder: Path) -> None:
    """`up` never builds over files that are not a sandbox's."""
    (short_folder / "thesis.tex").write_text("years")
    with pytest.raises(SandboxError, match="is no sandbox"):
        Sandbox(short_folder).up()
    assert (short_folder / "thesis.tex").read_text() == "years"


def test_a_daemon_that_cannot_start_is_named_with_its_log(short_folder: Path) -> None:
    """A bad line of slurm.conf fails `up` at once, quotes the log, and leaves nothing."""
    sandbox = Sandbox(short_folder / "s", SandboxSpec(slurm_conf="NoSuchKey=1"))
    with pytest.raises(SandboxError, match=r"slurmctld does not serve(.|\n)*NoSuchKey"):
        sandbox.up()
    assert processes_of(sandbox) == []


def test_a_slurmd_that_ignores_sigterm_is_killed(make_sandbox: MakeSandbox) -> None:
    """`stop` and `down` get rid of a daemon that does not listen."""
    sandbox = make_sandbox()
    stopped = sandbox.status()["daemons"]["n1"]
    subprocess.run(["kill", "-STOP", str(stopped)], check=True)
    sandbox.stop("n1", grace_s=0.2)
    assert sandbox.status()["daemons"]["n1"] is None
    assert stopped not in processes_of(sandbox)


def test_a_job_survives_restarts_of_the_daemons(make_sandbox: MakeSandbox) -> None:
    """The controller recovers its state, slurmd finds its job again."""
    sandbox = make_sandbox()
    job, _ = sandbox.sbatch("--wrap", "sleep 3; echo done")
    until(lambda: sandbox.job(job).get("JobState") == "RUNNING", "the job does not start")
    sandbox.restart("slurmctld")
    sandbox.restart("slurmd")
    assert sandbox.wait(job) == "COMPLETED"
    assert sandbox.output(job) == "done\n"


@pytest.mark.parametrize(
    ("sharing", "gres", "expected"),
    [
        ("mps", "mps:50", {"CUDA_VISIBLE_DEVICES=0", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=50"}),
        ("shard", "shard:2", {"CUDA_VISIBLE_DEVICES=0", "SLURM_SHARDS_ON_NODE=2"}),
    ],
)
def test_pretended_gpus_are_shared(
    make_sandbox: MakeSandbox, sharing: str, gres: str, expected: set[str]
) -> None:
    """Slurm gives a job its part of a GPU that does not exist."""
    sandbox = make_sandbox(gpus=2, sharing=sharing)
    job, _ = sandbox.sbatch(f"--gres={gres}", "--wrap", "env")
    assert sandbox.wait(job) == "COMPLETED"
    assert expected <= set(sandbox.output(job).splitlines())


def test_hooks_and_lua_are_wired_in(make_sandbox: MakeSandbox) -> None:
    """The controller reads our job_submit.lua; the node runs our launchers, and stays up."""
    sandbox = make_sandbox(hooks=True, lua=True)
    job, _ = sandbox.sbatch("--wrap", "printenv DLQUEUE_RUN_DIR")
    assert sandbox.wait(job) == "COMPLETED"
    assert sandbox.output(job).strip() == str(sandbox.path(f"nodes/n1/dlqueue/run/{job}.0"))
    config = sandbox.run(["scontrol", "show", "config"]).stdout
    assert "JobSubmitPlugins        = lua" in config
    assert sandbox.status()["nodes"] == {"n1": "idle"}


def test_accounting_knows_the_job(make_sandbox: MakeSandbox) -> None:
    """With slurmdbd, sacct tells name, state and exit code of an ended job, and its times to us."""
    sandbox = make_sandbox(accounting=True)
    job, _ = sandbox.sbatch("--job-name=counted", "--wrap", "exit 3")
    assert sandbox.wait(job) == "FAILED"
    ask = ["sacct", "-X", "-n", "-P", "-j", str(job), "-o", "JobName,State,ExitCode"]
    until(lambda: sandbox.run(ask).stdout.strip() == "counted|FAILED|3:0", "sacct does not know")
    (end,) = CommandClient(slurm_conf=str(sandbox.layout.slurm_conf)).ends([job], time.time() - 600)
    assert (end.job_id, end.user_id, end.state) == (job, os.getuid(), "FAILED")
    assert end.end_time_s is not None
    assert time.time() - 600 < end.start_time_s <= end.end_time_s < time.time() + 1
    for daemon in ("slurmdbd", "mariadbd"):  # what they hold is there again
        sandbox.restart(daemon)
    until(lambda: "counted" in sandbox.run(ask, check=False).stdout, "accounting has forgotten")


@pytest.mark.root
@pytest.mark.skipif(
    not Path("/sys/fs/cgroup/freezer").is_dir(), reason="needs the freezer of cgroup v1"
)
def test_cgroups_are_real_and_removed(make_sandbox: MakeSandbox) -> None:
    """A job runs in a cgroup of its own, which is gone with the sandbox."""
    sandbox = make_sandbox(cgroup=True)
    job, _ = sandbox.sbatch("--wrap", "cat /proc/self/cgroup")
    assert sandbox.wait(job) == "COMPLETED"
    folder = f"/slurm_{sandbox.nodes[0]}/uid_0/job_{job}/step_batch"
    assert f":memory:{folder}" in sandbox.output(job)
    sandbox.down()
    assert list(Path("/sys/fs/cgroup").glob(f"*/slurm_{sandbox.nodes[0]}")) == []


@pytest.mark.root
@pytest.mark.skipif(
    not Path("/sys/fs/cgroup/cpuset/cpuset.cpus").is_file(), reason="needs cgroup version 1"
)
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
def test_constrained_jobs_have_cores_of_their_own(make_sandbox: MakeSandbox) -> None:
    """With ConstrainCores=yes two jobs at once run on one core each, and not on the same one."""
    sandbox = make_sandbox(cgroup=True, constrain_cores=True, cpus=2)
    script = "grep Cpus_allowed_list /proc/self/status; until [ -e go ]; do sleep 0.1; done"
    jobs = [sandbox.sbatch("-c1", "--wrap", script)[0] for _ in range(2)]
    sandbox.until(lambda: all(cores(sandbox, job) for job in jobs), "no job says its cores")
    sandbox.path("out/go").touch()
    assert sorted(cores(sandbox, job) for job in jobs) == ["0", "1"]


def cores(sandbox: Sandbox, job: int) -> str:
    """What a job has said of its cores; empty before."""
    with suppress(FileNotFoundError):
        return sandbox.output(job).partition(":")[2].strip()
    return ""


def test_the_command_line_outlives_itself(short_folder: Path) -> None:
    """`up` returns, `run` works in what it left, `status` describes it, `down` removes it."""
    root = short_folder / "s"

    def dlqueue(verb: str, *words: str) -> "subprocess.CompletedProcess[str]":
        argv = [*CLI, verb, "--root", str(root), *words]
        return subprocess.run(argv, capture_output=True, text=True, check=False)

    up = dlqueue("up", "--json")
    try:
        assert (up.returncode, json.loads(up.stdout)["up"]) == (0, True)
        assert "starting slurmctld" in up.stderr
        assert dlqueue("run", "--", "sh", "-c", "sinfo -h -o %T; exit 7").returncode == 7
        assert dlqueue("run", "--", "no-such-command").returncode == 127
        assert "slurmctld" in dlqueue("status").stdout
        assert dlqueue("up").returncode == 1
    finally:
        down = dlqueue("down")
    assert (down.returncode, down.stdout) == (0, "")
    assert not root.exists()
    assert dlqueue("status").returncode == 1
