"""Limits of QOS on a real Slurm and in a replay of the same jobs."""

from datetime import datetime
from pathlib import Path

import pytest

from slurm_ext.cli import main
from slurm_ext.core.errors import SlurmError
from slurm_ext.sandbox import Sandbox
from tests.conftest import MakeSandbox

pytestmark = pytest.mark.slurm

CONF = """AccountingStorageEnforce=limits,qos
SchedulerParameters=bf_interval=1,bf_resolution=1,bf_continue,sched_interval=1
PriorityType=priority/multifactor
PriorityWeightQOS=1000
"""
QOS = {
    "few": "MaxJobsPerUser=1 Priority=10",
    "group": "GrpTRES=cpu=2",
    "short": "MaxSubmitJobsPerUser=1 Flags=DenyOnLimit",
}
# QOS, CPUs, seconds; four CPUs are there.
JOBS = (
    ("few", 1, 9),
    ("few", 1, 3),
    ("group", 1, 14),
    ("group", 2, 2),
    ("group", 1, 3),
    ("short", 1, 3),
    ("short", 1, 3),
)
HEAD = "job,submit_s,duration_s,gpus,cpus,qos,user"
AT_ONCE_S = 5.0  # who started so soon after its submission was not kept waiting by a limit


@pytest.fixture(scope="module")
def slurm(make_module_sandbox: MakeSandbox) -> Sandbox:
    """A node with four CPUs, slurmdbd, and a QOS for each kind of limit."""
    slurm = make_module_sandbox(nodes=1, cpus=4, accounting=True, slurm_conf=CONF)
    for name, limits in QOS.items():
        slurm.run(["sacctmgr", "-i", "add", "qos", name, "set", *limits.split()])
    names = f"qos=normal,{','.join(QOS)}"
    slurm.run(["sacctmgr", "-i", "modify", "user", "root", "set", names, "defaultqos=normal"])
    return slurm


def submitted(slurm: Sandbox) -> list[int | None]:
    """All jobs at once; None: sbatch refused it."""
    ids: list[int | None] = []
    for qos, cpus, seconds in JOBS:
        words = [f"--qos={qos}", f"-n{cpus}", "--mem=1", "-t2"]
        try:
            ids.append(slurm.sbatch(*words, script=f"#!/bin/sh\nsleep {seconds}\n")[0])
        except SlurmError as error:
            if "QOSMaxSubmitJobPerUserLimit" not in str(error):
                raise
            ids.append(None)
    return ids


def times(fields: dict[str, str]) -> tuple[float, float, float]:
    """Submission, start and end, in Unix seconds."""
    found = (datetime.fromisoformat(fields[f"{name}Time"]) for name in ("Submit", "Start", "End"))
    submit_s, start_s, end_s = (one.timestamp() for one in found)
    return submit_s, start_s, end_s


def test_the_same_jobs_wait_and_are_refused(slurm: Sandbox, tmp_path: Path) -> None:
    """Those that Slurm keeps back wait in the replay, in the same order, and nobody else does."""
    rows, waited, submit_s = [HEAD], dict[str, float](), 0.0
    for place, (job, (qos, cpus, seconds)) in enumerate(zip(submitted(slurm), JOBS, strict=True)):
        took_s = float(seconds)
        if job is not None:
            assert slurm.wait(job) == "COMPLETED"
            submit_s, start_s, end_s = times(slurm.job(job))
            waited[str(place)] = start_s - submit_s
            took_s = end_s - start_s
        rows.append(f"{place},{submit_s},{took_s},0,{cpus},{qos},root")
    (tmp_path / "trace.csv").write_text("\n".join(rows) + "\n")
    (tmp_path / "qos.txt").write_text(slurm.run(["sacctmgr", "-P", "show", "qos"]).stdout)
    (tmp_path / "slurm.conf").write_text(CONF)
    assert kept_waiting(waited) == kept_waiting(replayed(tmp_path)) == ["1", "3"]
    assert set(waited) == set(replayed(tmp_path)) == set("012345")


def kept_waiting(waited_s: dict[str, float]) -> list[str]:
    """The jobs that did not start at once, by how long they waited."""
    late = {job: seconds for job, seconds in waited_s.items() if seconds > AT_ONCE_S}
    return sorted(late, key=late.__getitem__)


def replayed(folder: Path) -> dict[str, float]:
    """Seconds that each job waits in the replay; without those that never start."""
    names = ("trace.csv", "qos.txt", "slurm.conf", "jobs.csv")
    trace, qos, conf, jobs = (str(folder / name) for name in names)
    words = ["--nodes", "1", "--gpus-per-node", "4", "--policy", "multifactor+backfill"]
    files = ["--qos", qos, "--slurm-conf", conf, "--jobs", jobs, "--count", "cpus"]
    assert main(["simulate", trace, *words, *files]) == 0
    lines = (line.split(",") for line in Path(jobs).read_text().splitlines()[1:])
    return {line[1]: float(line[7]) - float(line[6]) for line in lines if line[7]}
