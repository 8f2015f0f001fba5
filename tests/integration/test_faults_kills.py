"""Whatever is killed or restarted while jobs run: they complete, each with exactly one record."""

import os
import signal
import time
from functools import partial
from pathlib import Path

import pytest

from slurm_ext.sandbox import Sandbox
from slurm_ext.sandbox.processes import descendants
from tests.conftest import MakeSandbox
from tests.whole import ACTING, WHOLE, asked, completed, gated, teach, until

pytestmark = pytest.mark.slurm


@pytest.fixture(scope="module")
def slurm(make_module_sandbox: MakeSandbox) -> Sandbox:
    """All of dlqueue, acting; jobs called `known` are known."""
    sandbox = make_module_sandbox(**WHOLE, settings=ACTING)
    teach(sandbox, "known")
    return sandbox


def writer(slurm: Sandbox) -> int | None:
    """The history writer's pid, while there is one."""
    for pid in descendants(slurm.status()["daemons"]["advisor"]):
        try:
            if (
                b"slurm_ext.advisor.history_writer.writer"
                in Path(f"/proc/{pid}/cmdline").read_bytes()
            ):
                return pid
        except OSError:
            continue
    return None


def test_an_epilog_killed_anywhere(slurm: Sandbox) -> None:
    """Killed after 10, 20, ... 90 ms; whoever comes next completes what it had begun."""
    epilog = slurm.path("etc/epilog")
    as_shipped = epilog.read_text()
    limit = as_shipped[as_shipped.index("/usr/bin/timeout") : as_shipped.index("/usr/bin/python3")]
    killing = '/usr/bin/timeout -s KILL "0.0$((SLURM_JOB_ID % 10))" '
    assert limit.endswith(" 5 ")
    epilog.write_text(as_shipped.replace(limit, killing))
    try:
        job_ids = [slurm.sbatch("--wrap", "true")[0] for _ in range(20)]
        for job_id in job_ids:
            assert slurm.wait(job_id) == "COMPLETED"
        slurm.wait_for_nodes()
    finally:
        epilog.write_text(as_shipped)
    last, _ = slurm.sbatch("--wrap", "true")
    completed(slurm, last, *job_ids)


def test_advisor_and_history_writer_killed_again_and_again(slurm: Sandbox) -> None:
    """Twenty jobs, each submitted and ended while one of the two dies: twenty runs, no doubles."""
    job_ids = []
    for number in range(20):
        said = ""
        if number % 5 == 4:
            slurm.stop("advisor", signal.SIGKILL)
            job_id, said = slurm.sbatch("-Jknown", "--wrap", "sleep 0.1")
            slurm.start("advisor")
        else:
            job_id, _ = slurm.sbatch("-Jknown", "--wrap", "sleep 0.1")
            pid = writer(slurm)
            if pid is not None:
                os.kill(pid, signal.SIGKILL)
        assert said == ""
        job_ids.append(job_id)
        time.sleep(0.1)
    completed(slurm, *job_ids)
    sql = "SELECT job_id, count(*) FROM decisions WHERE job_id IS NOT NULL GROUP BY job_id"
    until(lambda: {count for _, count in asked(slurm, sql)} == {1}, "a job has two decisions")


def begun(slurm: Sandbox, name: str) -> tuple[list[int], Path]:
    """Jobs that have just begun, and the file that they wait for."""
    gate, wait = gated(slurm, name)
    job_ids = [slurm.sbatch("-Jknown", "--wrap", f"{wait}; echo ran")[0] for _ in range(2)]
    until(lambda: all(slurm.path(f"out/{job_id}.txt").exists() for job_id in job_ids), "not begun")
    return job_ids, gate


def ran(slurm: Sandbox, job_ids: list[int]) -> None:
    """They go to their end."""
    said = partial(map, slurm.output, job_ids)
    until(lambda: set(said()) == {"ran\n"}, "they did not run to their end")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["ended", "killed"])
def test_slurmctld_and_slurmd_restarted(slurm: Sandbox, number: signal.Signals) -> None:
    """In the middle of a job, slurmd by an administrator or by a crash: it is recorded once."""
    job_ids, gate = begun(slurm, f"restarted-{number}")
    slurm.restart("slurmctld")
    for name in slurm.nodes:
        slurm.stop(name, number)
        slurm.start(name)
    gate.touch()
    ran(slurm, job_ids)
    completed(slurm, *job_ids)


def saved_since(slurm: Sandbox, when_s: float) -> None:
    """Waits until slurmctld has saved what it knew at that time, which it does within seconds."""
    state = slurm.path("state/job_state")
    until(lambda: state.exists() and state.stat().st_mtime > when_s + 1, "slurmctld saves nothing")


def test_everything_killed_at_once(slurm: Sandbox) -> None:
    """Advisor, history writer, slurmctld and slurmd are gone while jobs end, and come back."""
    job_ids, gate = begun(slurm, "all-killed")
    saved_since(slurm, time.time())  # what slurmctld has not saved, Slurm forgets
    daemons = ("advisor", "slurmctld", *slurm.nodes)
    for name in daemons:
        slurm.stop(name, signal.SIGKILL)
    gate.touch()
    ran(slurm, job_ids)  # with nobody to see it
    for name in daemons:
        slurm.start(name)
    completed(slurm, *job_ids)


def test_nothing_was_counted_twice(slurm: Sandbox) -> None:
    """Over all of the above, no job has two runs."""
    for name in ("record_id", "job_id"):
        assert asked(slurm, f"SELECT {name} FROM runs GROUP BY {name} HAVING count(*) > 1") == []
