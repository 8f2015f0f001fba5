"""Edits on the real Slurm: what the advisor decides is what the job gets, srun included."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.sandbox import Sandbox
from tests.conftest import MakeSandbox
from tests.fake_advisor import DECISION, FakeAdvisor, cpus, reply, says

pytestmark = pytest.mark.slurm

MEM_MIB = 100  # DefMemPerCPU of the sandbox
SHOW = """#!/bin/bash
echo "batch $SLURM_CPUS_PER_TASK $SRUN_CPUS_PER_TASK $DLQUEUE_DECISION"
srun bash -c 'echo "step $SLURM_CPUS_PER_TASK"'
"""


@pytest.fixture(scope="module")
def slurm(make_module_sandbox: MakeSandbox) -> Sandbox:
    """A Slurm with our Lua; the advisor is each test's own."""
    settings = {"advisor.breaker_s": 1}
    return make_module_sandbox(
        nodes=2, cpus=16, mem_mib=16 * MEM_MIB, gpus=1, lua=True, settings=settings
    )


def advisor(slurm: Sandbox, edits: dict[str, Any], message: str | None = None) -> FakeAdvisor:
    """An advisor at the sandbox's socket that answers every job with `edits`."""
    return FakeAdvisor(Path(slurm.settings["paths.socket"]), says(reply(edits, message)))


def ran(slurm: Sandbox, *argv: str, script: str = SHOW) -> tuple[dict[str, str], list[str], str]:
    """A job's record after it completed, the lines it wrote, what sbatch said."""
    job_id, said = slurm.sbatch(*argv, script=script)
    assert slurm.wait(job_id) == "COMPLETED", slurm.output(job_id)
    return slurm.job(job_id), slurm.output(job_id).splitlines(), said


def mem_mib(job: dict[str, str]) -> str:
    """The memory that the job got."""
    return (job.get("TRES") or job["AllocTRES"]).partition("mem=")[2].partition(",")[0]


@pytest.mark.parametrize(
    ("argv", "tasks", "count"),
    [((), 1, 4), (("-c4",), 1, 2), (("-n2", "-c4"), 2, 2), (("-n2", "-c4"), 2, 6)],
    ids=["grow_from_unset", "shrink_4_to_2", "shrink_two_tasks", "grow_two_tasks"],
)
def test_cpus_really_change(slurm: Sandbox, argv: tuple[str, ...], tasks: int, count: int) -> None:
    """Allocation, batch environment and srun inside the script all show the new count."""
    with advisor(slurm, cpus(count, tasks, DLQUEUE_DECISION=DECISION), "dlqueue: changed"):
        job, lines, said = ran(slurm, *argv)
    assert (job["NumCPUs"], job["CPUs/Task"]) == (str(count * tasks), str(count))
    assert lines == [f"batch {count} {count} {DECISION}"] + [f"step {count}"] * tasks
    assert said == "sbatch: dlqueue: changed\n"


@pytest.mark.parametrize(
    ("argv", "memory"),
    [
        (("-c4",), {"min_mem_per_cpu": 200}),
        (("-c4",), {"min_mem_per_node": 400}),
        (("-c4", "--mem-per-cpu=100"), {"min_mem_per_cpu": 200}),
        (("-c4", "--mem-per-cpu=100"), {"min_mem_per_node": 400}),
        (("-c4", "--mem=400"), {}),
        (("-c4", "--mem=300"), {"min_mem_per_node": 400}),
        (("-c4", "--mem=300"), {"min_mem_per_cpu": 200}),
    ],
    ids=lambda value: "_".join(value).replace("-", "") or "unchanged",
)
def test_memory_moves_with_the_cpus(
    slurm: Sandbox, argv: tuple[str, ...], memory: dict[str, int]
) -> None:
    """Half the CPUs, the same 400 MiB: every kind of memory edit takes, and srun works after it."""
    with advisor(slurm, {**cpus(2), **memory}):
        job, lines, _ = ran(slurm, *argv)
    assert (job["NumCPUs"], mem_mib(job)) == ("2", "400M")
    assert lines[1] == "step 2"


def test_comments_stay_the_users(slurm: Sandbox) -> None:
    """Neither the comment nor the admin comment is ours to write."""
    with advisor(slurm, cpus(4)):
        job, _, _ = ran(slurm, "--comment=mine, really")
    assert job["Comment"].startswith("mine")
    assert "AdminComment" not in job


def test_shadow_mode_adds_the_token_only(slurm: Sandbox) -> None:
    """A reply with the token alone changes nothing else, and nothing is printed."""
    with advisor(slurm, {"env": {"DLQUEUE_DECISION": DECISION}}):
        job, lines, said = ran(slurm, "-c2")
    assert (job["NumCPUs"], lines[0], said) == ("2", f"batch 2  {DECISION}", "")


def test_what_the_advisor_is_told(slurm: Sandbox) -> None:
    """The request describes the job in the advisor's words, defaults filled in."""
    with advisor(slurm, {}) as asked:
        slurm.sbatch("-H", "-c2", "-t10", "-a0-3", "--gres=gpu:1", "--mem=200", script=SHOW)
    (job,) = asked.jobs
    assert job["script"] == SHOW
    told = {key: job.get(key) for key in ("partition", "cpus_per_task", "min_cpus", "array")}
    assert told == {"partition": "main", "cpus_per_task": 2, "min_cpus": 2, "array": "0-3"}
    assert (job["time_limit_minutes"], job["mem_per_node_mib"]) == (10, 200)
    assert "gpu:1" in job["tres_per_node"]


def test_an_array_is_asked_about_once(slurm: Sandbox) -> None:
    """All tasks of an array share one question and one answer."""
    with advisor(slurm, cpus(2)) as asked:
        job_id, _ = slurm.sbatch("-H", "-a0-3", script=SHOW)
    assert len(asked.requests) == 1
    assert slurm.job(job_id)["CPUs/Task"] == "2"


def test_only_the_first_part_of_a_heterogeneous_job_is_asked_about(slurm: Sandbox) -> None:
    """Later parts have no script; the first is marked, so that the advisor can leave it alone."""
    with advisor(slurm, {}) as asked:
        slurm.sbatch("-H", "-n1", ":", "-n2", script=SHOW)
    assert [job["het_offset"] for job in asked.jobs] == [0]


def test_exclusive_is_told(slurm: Sandbox) -> None:
    """The advisor sees --exclusive, which it leaves alone."""
    with advisor(slurm, {}) as asked:
        slurm.sbatch("-H", "--exclusive", script=SHOW)
    assert asked.jobs[0]["shared"] == 0


def test_test_only_is_answered_and_runs_nothing(slurm: Sandbox) -> None:
    """`sbatch --test-only` works as always; the edit shows in what it says."""
    with advisor(slurm, cpus(4)):
        done = slurm.run(["sbatch", "--test-only"], input=SHOW)
    assert "using 4 processors" in done.stderr


@pytest.mark.parametrize("command", ["srun", "salloc"])
def test_interactive_jobs_are_untouched(slurm: Sandbox, command: str) -> None:
    """Both srun and salloc run their command once, on the CPUs asked for; nobody else is asked."""
    with advisor(slurm, cpus(4), "dlqueue: changed") as asked:
        done = slurm.run([command, "-c2", "bash", "-c", "echo cpus $SLURM_CPUS_ON_NODE"])
    cpus_seen = [line for line in done.stdout.splitlines() if line.startswith("cpus")]
    assert len(cpus_seen) == 1
    assert cpus_seen == ["cpus 2"] or command == "salloc"
    assert (asked.connections, "dlqueue" in done.stderr) == ([], False)


@pytest.mark.parametrize("end", [b"\xff\xfe\x00\x01", b"'; DROP TABLE x; --\n", b"\x1b[2J<b>\n"])
def test_hostile_scripts_and_names_are_only_data(
    slurm: Sandbox, tmp_path: Path, end: bytes
) -> None:
    """Bytes and quotes in script, name and comment arrive as they are; the job is accepted."""
    body = b"#!/bin/bash\nexit 0\n" + end.replace(b"\0", b"\x02")  # sbatch itself refuses NUL
    script = tmp_path / "job.sh"
    script.write_bytes(body)
    with advisor(slurm, cpus(4)) as asked:
        name = 'it\'s "x"\n\x1b[2J<i>'
        done = slurm.run(["sbatch", "-o/dev/null", f"-J{name}", f"--comment={name}", str(script)])
    assert "Submitted" in done.stdout
    assert asked.jobs[0]["name"] == asked.jobs[0]["comment"] == name
    assert asked.jobs[0]["script"].encode("utf-8", "surrogateescape") == body


def test_a_giant_script_is_submitted(slurm: Sandbox) -> None:
    """A script near Slurm's own 4 MB limit is told in part and goes through whole."""
    script = SHOW + "# padding\n" * 400_000
    with advisor(slurm, cpus(2)) as asked:
        job, lines, _ = ran(slurm, script=script)
    assert asked.jobs[0]["script_truncated"]
    assert (job["NumCPUs"], lines[1]) == ("2", "step 2")


def test_a_raised_job_that_lost_cpus_while_it_waited_still_runs(make_sandbox: MakeSandbox) -> None:
    """After `scontrol update` to fewer CPUs its srun asks for no more than it has.

    26.05 leaves the job its eight CPUs on the node, and so the variable stays.
    """
    slurm = make_sandbox(lua=True, hooks=True, cpus=8)
    with FakeAdvisor(Path(slurm.settings["paths.socket"]), says(reply(cpus(8)))):
        job_id, _ = slurm.sbatch("-H", script=SHOW)
    fewer = ("NumCPUs=2", "CPUsPerTask=2", "MinCPUsNode=2")
    slurm.run(["scontrol", "update", f"JobId={job_id}", *fewer])
    slurm.run(["scontrol", "release", str(job_id)])
    assert slurm.wait(job_id) == "COMPLETED", slurm.output(job_id)
    batch, step = slurm.output(job_id).splitlines()
    assert (batch.split()[:2], step.split()[0]) == (["batch", "2"], "step")


def test_a_joined_site_file_keeps_its_own_rules(make_sandbox: MakeSandbox) -> None:
    """Added to a site's own job_submit.lua, dlqueue sees what that file has decided before."""
    slurm = make_sandbox(lua=True)
    shim = slurm.path("etc/job_submit.lua")
    load, ask = (line for line in shim.read_text().splitlines() if "dlqueue" in line[:60])
    shim.write_text(
        f"{load}\n"
        "function slurm_job_submit(job, partitions, uid)\n"
        "  if job.comment == 'no' then return slurm.ERROR end\n"
        "  job.time_limit = 7\n"
        "  pcall(function(...) dlqueue.submit(...) end, job, partitions, uid)\n"
        "  return slurm.SUCCESS\nend\n"
        "function slurm_job_modify() return slurm.SUCCESS end\n"
    )
    assert "pcall(function(...) dlqueue.submit(...) end, ...)" in ask
    slurm.restart("slurmctld")
    with FakeAdvisor(Path(slurm.settings["paths.socket"]), says(reply(cpus(2)))) as asked:
        job_id, _ = slurm.sbatch("-H", script=SHOW)
        refused: subprocess.CompletedProcess[str] = slurm.run(
            ["sbatch", "-H", "--comment=no"], input=SHOW, check=False
        )
    assert refused.returncode != 0
    assert [job["time_limit_minutes"] for job in asked.jobs] == [7]
    assert slurm.job(job_id)["CPUs/Task"] == "2"
