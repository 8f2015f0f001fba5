"""Limits of accounts and QOS on a real slurmdbd: a raise of ours never has a job rejected."""

import sys
from pathlib import Path

import pytest

from slurm_ext.core.wire import encode_request
from slurm_ext.history.store.store import open_history
from slurm_ext.sandbox import Sandbox
from tests.conftest import MakeSandbox
from tests.whole import ACTING, WHOLE, advisor_says, learn, until, waiting_run

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
        "modify account sandbox set GrpTRES=cpu=24",  # room for eight raised jobs: 3 each
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


def imported(slurm: Sandbox, folder: Path, job_id: int, columns: str) -> list[tuple[object, ...]]:
    """A job's runs after an import into a history in `folder`."""
    config = folder / "dlqueue.toml"
    config.write_text(f'[paths]\nstate_dir = "{folder}"\n')
    command = [sys.executable, "-m", "slurm_ext.cli", "history", "import", "--since", "2d"]
    slurm.run([*command, "--config", str(config)])
    with open_history(folder / "history.db", read_only=True) as history:
        sql = f"SELECT {columns} FROM runs WHERE job_id = ?"
        return history.conn.execute(sql, (job_id,)).fetchall()


def test_earlier_jobs_are_imported_from_slurmdbd(slurm: Sandbox, tmp_path: Path) -> None:
    """A history that begins today knows what ran before it, a name with a bar in it too.

    Nothing measures energy here, of which Slurm says 0: that is no figure.
    """
    job_id, _ = slurm.sbatch("-J", "a|b", script="#!/bin/bash\nexit 3\n")
    columns = "job_name, state, exit_code, cpus, num_nodes, node_energy_j"
    found = until(lambda: imported(slurm, tmp_path, job_id, columns), "the job is never told")
    assert found == [("a|b", "FAILED", 3, 1, 1, None)]
    energy(slurm, job_id, 7200)
    (tmp_path / "anew").mkdir()
    assert imported(slurm, tmp_path / "anew", job_id, "node_energy_j") == [(7200.0,)]


def energy(slurm: Sandbox, job_id: int, joules: int) -> None:
    """As a meter would have left it in slurmdbd: TRES 3 of the job."""
    table = f"{slurm.settings['site.cluster']}_job_table"
    sql = f"UPDATE {table} SET tres_alloc = CONCAT(tres_alloc, ',3={joules}') WHERE id_job={job_id}"
    socket = f"--socket={slurm.layout.run}/mysql.sock"
    words = ["--no-defaults", socket, f"-u{slurm.plan.user}", "-psandbox", "slurm_acct_db"]
    slurm.run(["mariadb", *words, "-e", sql])


def test_without_known_limits_nothing_is_raised(slurm: Sandbox) -> None:
    """While slurmdbd was never reached, jobs go as written and are accepted.

    The last test of this cluster: it stays without slurmdbd.
    """
    slurm.stop("slurmdbd")
    slurm.restart("advisor")
    ping = encode_request("ping")
    until(lambda: advisor_says(slurm, ping).get("limits") is False, "no advisor, or one that knows")
    assert [given(slurm, *argv)[0] for argv in (("-A", "root"), ("-A", "sub"))] == [1, 1]
