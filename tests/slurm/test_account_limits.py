"""Limits of accounts and QOS on a real slurmdbd: a raise of ours never has a job rejected."""

import sys
from pathlib import Path

import pytest

from slurm_ext.history.store import open_history
from slurm_ext.sandbox import Sandbox
from tests.conftest import MakeSandbox
from tests.whole import ACTING, WHOLE, advisor_runs, learn, until, waiting_run

pytestmark = pytest.mark.slurm

ENFORCED = "AccountingStorageEnforce=limits,qos\n"
SCRIPT = "#!/bin/bash\necho $SLURM_CPUS_PER_TASK\n"


@pytest.fixture(scope="module")
def slurm(make_module_sandbox: MakeSandbox) -> Sandbox:
    """All of dlqueue, slurmdbd, and a QOS that rejects what is larger than two CPUs."""
    slurm = make_module_sandbox(**WHOLE, settings=ACTING, accounting=True, slurm_conf=ENFORCED)
    for command in (
        "add qos small set MaxTRESPerJob=cpu=2 Flags=DenyOnLimit",
        "add account sub parent=sandbox",
        "modify account sandbox set GrpTRES=cpu=3",
        "add user root account=sub",
        "modify user root set qos+=small defaultqos=normal",
    ):
        slurm.run(["sacctmgr", "-i", *command.split()])
    slurm.restart("advisor")  # it reads limits once a minute
    hungry(slurm)
    return slurm


def hungry(slurm: Sandbox) -> None:
    """The advisor learns that jobs of this name are bound by the CPU of one worker."""
    record = waiting_run("hungry", 900_001)
    (loader,) = record["probe"]["summaries"][0]["loaders"]
    loader["worker_rss_bytes"] = 1 << 20  # memory is no limit here
    for phase in loader["phases"]:
        phase.update({"wait_s": 19.9, "step_s": 0.1, "fetch_cpu_s": 19.9, "main_cpu_s": 0.1})
    learn(slurm, record)


def given(slurm: Sandbox, *argv: str) -> tuple[int, str]:
    """CPUs of a held job, and what sbatch said; fails where Slurm rejects it."""
    job_id, said = slurm.sbatch("-H", "-J", "hungry", *argv, script=SCRIPT)
    return int(slurm.job(job_id)["NumCPUs"]), said


@pytest.mark.parametrize(
    ("argv", "cpus"),
    [
        (("-A", "root"), 8),
        (("-A", "root", "--qos=small"), 2),
        (("-A", "sub"), 3),
        (("-A", "sub", "--qos=small"), 2),
    ],
    ids=["no limit", "qos", "account above", "both"],
)
def test_a_raise_stays_within_account_and_qos(
    slurm: Sandbox, argv: tuple[str, ...], cpus: int
) -> None:
    """Evidence says more CPUs are better: the job is given as many as Slurm will accept."""
    until(lambda: given(slurm, "-A", "root")[0] == 8, "the advisor does not raise")
    got, said = given(slurm, *argv)
    assert got == cpus
    assert f"cpus-per-task 1 -> {cpus}" in said


def test_the_qos_really_rejects(slurm: Sandbox) -> None:
    """The limit that the advisor kept is one that slurmctld enforces."""
    done = slurm.run(
        ["sbatch", "-H", "-c3", "--qos=small", "--comment=dlqueue=off"], check=False, input=SCRIPT
    )
    assert "QOSMaxCpuPerJobLimit" in done.stderr


def test_earlier_jobs_are_imported_from_slurmdbd(slurm: Sandbox, tmp_path: Path) -> None:
    """A history that begins today knows what ran before it, a name with a bar in it too."""
    job_id, _ = slurm.sbatch("-J", "a|b", script="#!/bin/bash\nexit 3\n")
    config = tmp_path / "dlqueue.toml"
    config.write_text(f'[paths]\nstate_dir = "{tmp_path}"\n')
    command = [sys.executable, "-m", "slurm_ext.cli", "history", "import", "--since", "2d"]

    def imported() -> list[tuple[object, ...]]:
        slurm.run([*command, "--config", str(config)])
        sql = "SELECT job_name, state, exit_code, cpus, num_nodes FROM runs WHERE job_id = ?"
        with open_history(tmp_path / "history.db", read_only=True) as history:
            return history.conn.execute(sql, (job_id,)).fetchall()

    assert until(imported, "slurmdbd never tells of the job") == [("a|b", "FAILED", 3, 1, 1)]


def test_without_known_limits_nothing_is_raised(slurm: Sandbox) -> None:
    """While slurmdbd was never reached, CPUs stay as written and the job is accepted.

    The last test of this cluster: it stays without slurmdbd.
    """
    slurm.stop("slurmdbd")
    slurm.restart("advisor")
    until(lambda: advisor_runs(slurm) > 0, "no advisor")
    assert [given(slurm, *argv)[0] for argv in (("-A", "root"), ("-A", "sub"))] == [1, 1]
