"""The hooks under a real Slurm: every way a job can end leaves exactly one record a run."""

import json
import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.node.record.reader import read_record
from slurm_ext.sandbox import Sandbox
from tests.conftest import MakeSandbox
from tests.releases import ends_of_cancelled
from tests.whole import gated, out_of_time, until

pytestmark = pytest.mark.slurm

TOKEN = "d1-0123456789abcdef"
TIMES = "times\n"  # the shell's own CPU seconds, and those of what it waited for
BURN = "#!/bin/sh\npython3 -S -c 'import time\nwhile time.process_time() < 1.5: pass'\n"


@pytest.fixture(scope="module")
def slurm(make_module_sandbox: MakeSandbox) -> Sandbox:
    """Two nodes with our hooks and the folder transport."""
    budgets = {"node.prolog_budget_s": 30.0, "node.epilog_budget_s": 30.0}  # of a busy machine
    settings = {"node.probe": True, "node.sample_s": 0.2, **budgets}
    sandbox = make_module_sandbox(nodes=2, cpus=8, hooks=True, settings=settings)
    sandbox.path("dlqueue/spool").mkdir(exist_ok=True)
    return sandbox


@pytest.fixture(scope="module", autouse=True)
def overlong(slurm: Sandbox) -> int:
    """A job over its time limit, which slurmctld looks at twice a minute: looked at last."""
    return out_of_time(slurm)


@pytest.fixture(autouse=True)
def nodes_stay_up(slurm: Sandbox) -> Iterator[None]:
    """Whatever a test does, no node is drained or down."""
    yield
    said = slurm.run(["sinfo", "-h", "-N", "-o", "%T %E"]).stdout
    assert not any(word in said for word in ("drain", "down", "rolog", "pilog")), said


def _records(sandbox: Sandbox, job_id: int) -> list[dict[str, Any]]:
    folder = sandbox.path("dlqueue/spool")
    return [read_record(path) for path in sorted(folder.glob(f"*-{job_id}-*.json"))]


def _only(sandbox: Sandbox, job_id: int) -> dict[str, Any]:
    """The one record of a job; a second one would be there soon after."""
    until(lambda: _records(sandbox, job_id), "no record")
    time.sleep(0.3)
    (record,) = _records(sandbox, job_id)
    return record


def _cpu_s(record: dict[str, Any]) -> float:
    found = {each["name"]: each["value"] for each in record["counters"]}
    return float((found["cpu_user"] or 0) + (found["cpu_system"] or 0))


def _used_s(sandbox: Sandbox, job_id: int) -> float:
    """CPU seconds of a job's script, by the last words of its shell (TIMES)."""
    said = "\n".join(sandbox.output(job_id).splitlines()[-2:])
    clocks = re.findall(r"(\d+)m([\d.]+)s", said)
    assert len(clocks) == 4, said
    return sum(60 * int(minutes) + float(seconds) for minutes, seconds in clocks)


def _is_counted_once(sandbox: Sandbox, record: dict[str, Any]) -> bool:
    """Half of what the script used was seen at least, and nothing twice."""
    used_s = _used_s(sandbox, record["identity"]["job_id"])
    return 0.45 * used_s < _cpu_s(record) < 1.9 * used_s


def _spool(sandbox: Sandbox, job_id: int) -> Path:
    """The spool of the node where a job runs."""
    node = until(lambda: sandbox.job(job_id).get("BatchHost"), "the job does not start")
    return sandbox.path(f"nodes/{node}/dlqueue")


def _sampler(sandbox: Sandbox, job_id: int) -> int:
    spool = _spool(sandbox, job_id)
    lock = until(lambda: list(spool.glob(f"state/{job_id}.*.lock")), "no sampler")[0]
    return int(until(lock.read_text, "the sampler does not say who it is"))


def test_a_completed_job(slurm: Sandbox) -> None:
    """Times, allocation, counters, the token, and what the job itself saw."""
    script = BURN + "env | grep -E '^(DLQUEUE|PYTHONPATH)'\nsrun env | grep ^PYTHONPATH\n"
    script += TIMES
    began_s = time.monotonic()
    job_id, said = slurm.sbatch("-n1", "-c2", script=script, env={"DLQUEUE_DECISION": TOKEN})
    assert slurm.wait(job_id) == "COMPLETED"
    record = _only(slurm, job_id)
    assert said == ""
    assert record["outcome"] == {
        "state": "COMPLETED",
        "exit_code": 0,
        "signal": 0,
        "source": "epilog",
    }
    assert (record["decision"], record["identity"]["restart"]) == (TOKEN, 0)
    assert (record["allocation"]["cpus_per_task"], record["allocation"]["num_nodes"]) == (2, 1)
    assert _is_counted_once(slurm, record), record["counters"]
    assert 1.0 < record["times"]["elapsed_s"] < time.monotonic() - began_s
    run_dir, *paths = (line.partition("=")[2] for line in _lines(slurm, job_id, "RUN_DIR", "PYTH"))
    assert run_dir.endswith(f"/run/{job_id}.0")
    assert len(paths) == 2
    assert {path.count("probe/site") for path in paths} == {1}


def _lines(sandbox: Sandbox, job_id: int, *words: str) -> list[str]:
    lines = sandbox.output(job_id).splitlines()
    return sorted((n for n in lines if any(w in n for w in words)), key=lambda n: "PYTH" in n)


def test_a_failed_job(slurm: Sandbox) -> None:
    """The script's own exit status is kept."""
    job_id, _ = slurm.sbatch("--wrap", "exit 3")
    assert slurm.wait(job_id) == "FAILED"
    outcome = _only(slurm, job_id)["outcome"]
    assert (outcome["state"], outcome["exit_code"], outcome["signal"]) == ("FAILED", 3, 0)


def test_a_cancelled_job(slurm: Sandbox) -> None:
    """It is told as cancelled although slurmd's environment says 0:0; newer releases hide it."""
    job_id, _ = slurm.sbatch("--wrap", "echo started; sleep 600")
    out = slurm.path(f"out/{job_id}.txt")
    until(lambda: out.exists() and out.read_text(), "not begun")
    slurm.run(["scancel", str(job_id)])
    assert slurm.wait(job_id) == "CANCELLED"
    assert _only(slurm, job_id)["outcome"]["state"] in ends_of_cancelled(slurm)


def test_a_cancelled_job_that_ends_by_itself(slurm: Sandbox) -> None:
    """A script that scancel makes exit did not fail: a shell whose child dies first.

    It is COMPLETED where the epilog asks before slurmctld has heard how it ended; the advisor asks
    again.
    """
    script = "#!/bin/bash\ntrap 'exit 143' TERM\nsleep 600 &\necho started\nwait\n"
    job_id, _ = slurm.sbatch(script=script)
    out = slurm.path(f"out/{job_id}.txt")
    until(lambda: out.exists() and out.read_text(), "not begun")
    slurm.run(["scancel", str(job_id)])
    assert slurm.wait(job_id) == "CANCELLED"
    assert _only(slurm, job_id)["outcome"]["state"] in {*ends_of_cancelled(slurm), "COMPLETED"}


def test_a_suspended_job_did_not_run_meanwhile(slurm: Sandbox) -> None:
    """Its elapsed time is without that, as Slurm's run time is and its time limit."""
    gate, wait = gated(slurm, "suspended")
    job_id, _ = slurm.sbatch("-n1", "--wrap", wait)
    until(lambda: slurm.job(job_id).get("JobState") == "RUNNING", "the job does not start")
    slurm.run(["scontrol", "suspend", str(job_id)])
    time.sleep(6)  # Slurm counts whole seconds; two of them may be the clocks' difference
    slurm.run(["scontrol", "resume", str(job_id)])
    gate.touch()
    assert slurm.wait(job_id) == "COMPLETED"
    times = _only(slurm, job_id)["times"]
    assert times["end_s"] - times["start_s"] - times["elapsed_s"] > 3


def test_a_requeued_job_has_a_record_a_run(slurm: Sandbox) -> None:
    """The first run is REQUEUED, the second one ends as it ends; each under its own count."""
    job_id, _ = slurm.sbatch("--requeue", "--wrap", "sleep 600")
    _sampler(slurm, job_id)
    slurm.run(["scontrol", "requeue", str(job_id)])
    first = _only(slurm, job_id)
    assert (first["identity"]["restart"], first["outcome"]["state"]) == (0, "REQUEUED")
    slurm.run(["scancel", str(job_id)])


def test_an_array_names_its_tasks(slurm: Sandbox) -> None:
    """Each task has its record with the array's id and its own index."""
    job_id, _ = slurm.sbatch("--array=3-4", "--wrap", "true")
    folder = slurm.path("dlqueue/spool")

    def tasks() -> list[dict[str, Any]]:
        records = [json.loads(path.read_text()) for path in folder.glob("*.json")]
        return [r for r in records if r["identity"]["array_job_id"] == job_id]

    found = until(lambda: r if len(r := tasks()) == 2 else None, "not two records")
    assert sorted(record["identity"]["array_task_id"] for record in found) == [3, 4]


def test_hostile_names_and_comments(slurm: Sandbox) -> None:
    """They stay data in the record, and the job runs as written."""
    name = "a'\"; DROP TABLE runs; <b>$(touch /tmp/pwned)\x1b[31m JobState=FAILED"
    job_id, _ = slurm.sbatch(f"--job-name={name}", f"--comment={name}", "--wrap", "true")
    record = _only(slurm, job_id)
    assert record["identity"]["job_name"] == name
    assert record["outcome"]["state"] == "COMPLETED"


def test_a_job_on_two_nodes_has_a_record_on_each(slurm: Sandbox) -> None:
    """Only the head node asks the controller; the other one does not claim what it cannot know."""
    job_id, _ = slurm.sbatch("-N2", "-n2", "-c2", "--mem=200", "--wrap", "srun sleep 1")
    assert slurm.wait(job_id) == "COMPLETED"
    records = _two(slurm, job_id)
    assert [record["identity"]["node"] for record in records] == list(slurm.nodes)
    assert [record["outcome"]["state"] for record in records] == ["COMPLETED", "UNKNOWN"]
    held = [(r["allocation"]["num_nodes"], r["allocation"]["cpus"]) for r in records]
    assert held == [(2, 2), (2, 2)]
    assert [r["allocation"]["mem_bytes"] for r in records] == [200 << 20, None]


def test_nodes_with_different_cpus_have_their_own_in_the_record(slurm: Sandbox) -> None:
    """Slurm gives each node the list of all of them, such as 4,1."""
    job_id, _ = slurm.sbatch(
        "-N2", "-n5", "-m", "plane=4", "--wrap", "echo $SLURM_JOB_CPUS_PER_NODE"
    )
    assert slurm.wait(job_id) == "COMPLETED"
    cpus = [record["allocation"]["cpus"] for record in _two(slurm, job_id)]
    assert slurm.output(job_id) == f"{cpus[0]},{cpus[1]}\n"


def _two(slurm: Sandbox, job_id: int) -> list[dict[str, Any]]:
    both = lambda: r if len(r := _records(slurm, job_id)) == 2 else None  # noqa: E731
    records: list[dict[str, Any]] = until(both, "not two records")
    return records


def test_corunners_on_a_node(slurm: Sandbox) -> None:
    """Jobs that share a node name each other."""
    gate, wait = gated(slurm, "together")
    argv = ("--nodelist=" + slurm.nodes[1], "--wrap", wait)
    jobs = first, second = [slurm.sbatch(*argv)[0] for _ in range(2)]
    until(lambda: all(slurm.path(f"out/{job}.txt").exists() for job in jobs), "not begun")
    time.sleep(1.5)  # what they have in common
    gate.touch()
    for job_id in jobs:
        slurm.wait(job_id)
    overlap = {each["job_id"]: each["overlap_s"] for each in _only(slurm, first)["corunners"]}
    assert 0.5 < overlap[second] < 100


def test_slurmd_restarted_in_the_middle(slurm: Sandbox) -> None:
    """The sampler lives on, the new slurmd's epilog finds it, and nothing is counted twice."""
    gate, wait = gated(slurm, "restarted")
    job_id, _ = slurm.sbatch(script=f"{BURN}{wait}\n{TIMES}")
    sampler = _sampler(slurm, job_id)
    slurm.restart("slurmd")
    assert _sampler(slurm, job_id) == sampler
    gate.touch()
    assert slurm.wait(job_id) == "COMPLETED"
    record = _only(slurm, job_id)
    assert record["outcome"]["state"] == "COMPLETED"
    assert _is_counted_once(slurm, record), record["counters"]


def test_a_killed_sampler(slurm: Sandbox) -> None:
    """The record comes nevertheless, with what had been counted."""
    gate, wait = gated(slurm, "sampler-killed")
    job_id, _ = slurm.sbatch(script=BURN + wait)
    sampler = _sampler(slurm, job_id)
    state = _spool(slurm, job_id) / f"state/{job_id}.0.json"
    until(lambda: _counted(state) > 1, "the sampler does not count")
    os.kill(sampler, signal.SIGKILL)
    gate.touch()
    assert slurm.wait(job_id) == "COMPLETED"
    assert _cpu_s(_only(slurm, job_id)) > 0.1


def _counted(state: Path) -> float:
    """Seconds that a sampler has looked at its job, by its own file."""
    return float(json.loads(state.read_text()).get("seen_s", 0)) if state.exists() else 0.0


def test_an_opted_out_job_leaves_no_trace(slurm: Sandbox) -> None:
    """--comment=dlqueue=off: no folder, no variable, no record."""
    job_id, _ = slurm.sbatch("--comment=dlqueue=off", "--wrap", "env")
    slurm.wait(job_id)
    assert "DLQUEUE_RUN_DIR" not in slurm.output(job_id)
    time.sleep(0.5)
    assert _records(slurm, job_id) == []


@pytest.mark.root
def test_a_job_of_another_user(slurm: Sandbox) -> None:
    """The hooks are root, the job is nobody: his folder, his token, his counters."""
    script = BURN + 'stat -c "%u %a" $DLQUEUE_RUN_DIR\ncat $DLQUEUE_RUN_DIR/decision\n'
    job_id, _ = slurm.sbatch(
        "--uid=65534", "--gid=65534", script=script, env={"DLQUEUE_DECISION": TOKEN}
    )
    assert slurm.wait(job_id) == "COMPLETED"
    assert slurm.output(job_id) == f"65534 700\n{TOKEN}"
    record = _only(slurm, job_id)
    assert (record["identity"]["uid"], record["decision"]) == (65534, TOKEN)
    assert _cpu_s(record) > 0.5


def test_a_broken_configuration_is_not_felt(slurm: Sandbox) -> None:
    """With node.json gone jobs run as ever and the node stays up."""
    node_json = slurm.path(f"nodes/{slurm.nodes[0]}/node.json")
    away = node_json.rename(node_json.with_suffix(".away"))
    try:
        job_id, _ = slurm.sbatch("--nodelist=" + slurm.nodes[0], "--wrap", "echo fine")
        assert slurm.wait(job_id) == "COMPLETED"
        assert slurm.output(job_id) == "fine\n"
    finally:
        away.rename(node_json)


def test_a_job_over_its_time_limit(slurm: Sandbox, overlong: int) -> None:
    """TIMEOUT, told by the controller while slurmd's environment says 0:0."""
    assert slurm.wait(overlong) == "TIMEOUT"
    assert _only(slurm, overlong)["outcome"]["state"] == "TIMEOUT"


@pytest.mark.root
def test_counters_of_a_real_control_group(make_sandbox: MakeSandbox) -> None:
    """With cgroup v1 the kernel's own totals are recorded, memory peak included."""
    cgroup = make_sandbox(cpus=2, hooks=True, cgroup=True, settings={"node.sample_s": 0.2})
    cgroup.path("dlqueue/spool").mkdir(exist_ok=True)
    hold = "python3 -S -c 'x = bytearray(200_000_000); import time; time.sleep(2)'\n"
    job_id, _ = cgroup.sbatch("--mem=1000", script=BURN + hold + TIMES)
    assert cgroup.wait(job_id) == "COMPLETED"
    record = _only(cgroup, job_id)
    found = {each["name"]: (each["source"], each["value"]) for each in record["counters"]}
    assert found["cpu_user"][0] == found["mem_peak"][0] == "cgroup/v1"
    assert _is_counted_once(cgroup, record), record["counters"]
    assert 200_000_000 < found["mem_peak"][1] < 900_000_000
    assert found["context_switches"][0] == "proc"
