"""Associations, minutes of TRES and preemption on a real Slurm and in a replay of the same jobs."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import pytest

from slurm_ext.cli import main
from slurm_ext.core.errors import SlurmError
from slurm_ext.sandbox import Sandbox
from slurm_ext.simulate.queue.run import REQUEUE_S
from tests.conftest import MakeSandbox
from tests.integration.test_simulate_qos_real import kept_waiting, times
from tests.whole import until

pytestmark = pytest.mark.slurm

CONF = """AccountingStorageEnforce=limits,qos
SchedulerParameters=bf_interval=1,bf_resolution=1,bf_continue,sched_interval=1
PriorityType=priority/multifactor
PriorityWeightQOS=1000
PriorityCalcPeriod=1
PreemptType=preempt/qos
PreemptMode=REQUEUE
"""
TIERS = """PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SchedulerParameters=bf_interval=1,bf_resolution=1,bf_continue,sched_interval=1
PartitionName=kept Nodes=ALL PriorityTier=1 PreemptMode=OFF
PartitionName=low Nodes=ALL PriorityTier=1 GraceTime=15
PartitionName=high Nodes=ALL PriorityTier=10
"""
ACCOUNTS = {
    "lab": "GrpTRES=cpu=2",
    "team": "parent=lab MaxJobs=1",
    "crew": "parent=lab",
    "tight": "MaxSubmitJobs=1",
    "paid": "GrpTRESMins=cpu=1",
    "cheap": "GrpTRESMins=cpu=1",
    "brief": "MaxTRESMinsPerJob=cpu=2",
    "ahead": "GrpTRESRunMins=cpu=4",
    "wall": "GrpWall=1",
}
QOS = {
    "low": "",
    "mid": "Priority=5 PreemptMode=cancel",
    "high": "Priority=9 Preempt=low,mid",
    "tenth": "UsageFactor=0.1",
    "twice": "UsageFactor=2 Flags=UsageFactorSafe MaxTRESMinsPerJob=cpu=4",
    "half": "UsageFactor=0.5 Flags=UsageFactorSafe MaxTRESMinsPerJob=cpu=2",
}
HEAD = "job,submit_s,duration_s,gpus,cpus,user,account,qos,vc,limit_s"
LIMIT_MIN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What sbatch is asked for: its QOS, account or partition, CPUs, and how long it sleeps."""

    cpus: int
    seconds: int
    account: str = "root"
    qos: str = "normal"
    vc: str = ""

    def submit(self, slurm: Sandbox) -> int:
        """Its number. Raises SlurmError."""
        words = [f"-A{self.account}", f"--qos={self.qos}", f"-n{self.cpus}", f"-t{LIMIT_MIN}"]
        words += [f"-p{self.vc}"] if self.vc else []
        script = f"#!/bin/sh\nsleep {self.seconds}\n"
        return slurm.sbatch(*words, "--mem=1", script=script)[0]


@pytest.fixture(scope="module")
def slurm(make_module_sandbox: MakeSandbox) -> Sandbox:
    """A node with eight CPUs, slurmdbd, an account for each kind of limit, QOS that preempt.

    Four CPUs are for the jobs of `minutes`, which run while others do; the replays have four.
    """
    slurm = make_module_sandbox(nodes=1, cpus=8, accounting=True, slurm_conf=CONF)
    for name, words in QOS.items():
        slurm.run(
            ["sacctmgr", "-i", "add", "qos", name, *(["set", *words.split()] if words else [])]
        )
    for name, words in ACCOUNTS.items():
        slurm.run(["sacctmgr", "-i", "add", "account", name, *words.split()])
        slurm.run(["sacctmgr", "-i", "add", "user", "root", f"account={name}"])
    names = f"qos=normal,{','.join(QOS)}"
    slurm.run(["sacctmgr", "-i", "modify", "user", "root", "set", names])
    return slurm


SPENDER = Job(account="paid", cpus=2, seconds=170)
WALLED = Job(account="wall", cpus=1, seconds=170)
CHEAP = Job(account="cheap", qos="tenth", cpus=1, seconds=120)


@pytest.fixture(scope="module", autouse=True)
def minutes(slurm: Sandbox) -> dict[Job, int]:
    """Those that run for minutes, all at once and first, so that the other jobs run meanwhile."""
    return {job: job.submit(slurm) for job in (SPENDER, WALLED, CHEAP)}


@dataclass(frozen=True, slots=True)
class Told:
    """What became of a job: seconds that it waited, None: for ever; starts anew; why it ended."""

    waited_s: float | None
    restarts: int
    why: str


def replayed(
    folder: Path, slurm: Sandbox, jobs: Sequence[tuple[float, Job]], conf: str = CONF
) -> list[Told]:
    """What becomes of jobs, with the times of their submissions, in the replay of the site."""
    rows = [HEAD]
    for number, (submit_s, job) in enumerate(jobs):
        who = f"root,{job.account},{job.qos if conf == CONF else ''},{job.vc}"
        rows.append(f"{number},{submit_s},{job.seconds},0,{job.cpus},{who},{60 * LIMIT_MIN}")
    (folder / "trace.csv").write_text("\n".join(rows) + "\n")
    (folder / "slurm.conf").write_text(conf)
    words = ["--nodes", "1", "--gpus-per-node", "4", "--policy", "multifactor+backfill"]
    words += ["--slurm-conf", str(folder / "slurm.conf"), "--count", "cpus"]
    if conf == CONF:
        for option, kind in (("qos", ["qos"]), ("associations", ["assoc", "tree"])):
            path = folder / f"{option}.txt"
            path.write_text(slurm.run(["sacctmgr", "-P", "show", *kind]).stdout)
            words += [f"--{option}", str(path)]
    jobs_file = folder / "jobs.csv"
    assert main(["simulate", str(folder / "trace.csv"), *words, "--jobs", str(jobs_file)]) == 0
    found = dict.fromkeys(map(str, range(len(jobs))), Told(None, 0, "left out"))
    for line in jobs_file.read_text().splitlines()[1:]:
        _, place, _, _, _, _, submit, start, _, restarts, _, why = line.split(",", 11)
        found[place] = Told(float(start) - float(submit) if start else None, int(restarts), why)
    return [found[str(number)] for number in range(len(jobs))]


def test_jobs_wait_for_their_account_as_on_slurm(slurm: Sandbox, tmp_path: Path) -> None:
    """At MaxJobs of an account, at GrpTRES of the one above; MaxSubmitJobs refuses."""
    jobs = [
        Job(account=account, cpus=1, seconds=seconds)
        for account, seconds in (
            ("team", 9),
            ("team", 3),
            ("crew", 14),
            ("crew", 3),
            ("tight", 3),
            ("tight", 3),
        )
    ]
    ids = [job.submit(slurm) for job in jobs[:-1]]
    with pytest.raises(SlurmError, match="AssocMaxSubmitJobLimit"):
        jobs[-1].submit(slurm)
    assert {slurm.wait(job) for job in ids} == {"COMPLETED"}
    real = [times(slurm.job(job)) for job in ids]
    at = [*(submit_s for submit_s, _, _ in real), real[-1][0]]
    found = replayed(tmp_path, slurm, list(zip(at, jobs, strict=True)))
    assert found[-1].why.startswith("refused: MaxSubmit=1 of user root of tight")
    waited = {str(place): start_s - submit_s for place, (submit_s, start_s, _) in enumerate(real)}
    ours = {str(place): one.waited_s or 0.0 for place, one in enumerate(found[:-1])}
    assert kept_waiting(waited) == kept_waiting(ours) == ["1", "3"]


def test_minutes_to_come_keep_jobs_back_as_on_slurm(slurm: Sandbox, tmp_path: Path) -> None:
    """GrpTRESRunMins counts what time limits leave to those who run; the first end frees it."""
    jobs = [Job(account="ahead", cpus=1, seconds=seconds) for seconds in (20, 3)]
    jobs.append(Job(account="ahead", cpus=2, seconds=3))
    ids = [job.submit(slurm) for job in jobs]
    until(lambda: "AssocGrpCPURunMinutes" in slurm.job(ids[1])["Reason"], "nothing keeps it")
    assert slurm.job(ids[2])["JobState"] == "PENDING"
    assert slurm.wait(ids[1], 120) == "COMPLETED"
    assert slurm.job(ids[2])["JobState"] == "PENDING"  # six minutes of four
    slurm.run(["scancel", str(ids[2])])
    real = [times(slurm.job(job)) for job in ids[:2]]
    at = [*(submit_s for submit_s, _, _ in real), real[1][0]]
    outcomes = replayed(tmp_path, slurm, list(zip(at, jobs, strict=True)))
    assert outcomes[2].why == "left out"
    assert outcomes[0].waited_s == 0
    assert outcomes[1].waited_s == pytest.approx(real[1][1] - real[1][0], abs=5)


def test_minutes_end_jobs_and_keep_them_back_as_on_slurm(
    slurm: Sandbox, minutes: dict[Job, int], tmp_path: Path
) -> None:
    """GrpTRESMins ends a job once they are used up, and the next waits; MaxTRESMins is kept."""
    brief = Job(account="brief", cpus=1, seconds=5)
    first, third = minutes[SPENDER], brief.submit(slurm)
    assert slurm.wait(first, 240) == "TIMEOUT"
    submit_s, start_s, end_s = times(slurm.job(first))
    assert 30 <= end_s - start_s < 165  # a minute of two CPUs, and until Slurm looks
    second = Job(account="paid", cpus=1, seconds=5)
    waits = second.submit(slurm)
    until(lambda: "AssocGrpCPUMinutes" in slurm.job(waits)["Reason"], "nothing keeps the next one")
    assert slurm.job(third)["Reason"] == "AssocMaxCpuMinutesPerJobLimit"
    slurm.run(["scancel", str(waits), str(third)])
    at = (submit_s, submit_s, end_s + 1)
    found = replayed(tmp_path, slurm, list(zip(at, (SPENDER, brief, second), strict=True)))
    assert found[0].why == "ended: GrpTRESMins=cpu=1 of account paid"
    assert found[1].why == "left out"
    assert (found[2].waited_s or 1e9) > 3600


def test_wall_time_and_usage_factors_count_as_on_slurm(
    slurm: Sandbox, minutes: dict[Job, int], tmp_path: Path
) -> None:
    """GrpWall counts no CPUs; with UsageFactor=0.1 two minutes are 12 s of the one there is."""
    jobs = [WALLED, CHEAP]
    ids = [minutes[job] for job in jobs]
    assert [slurm.wait(job, 240) for job in ids] == ["TIMEOUT", "COMPLETED"]
    at = [times(slurm.job(job))[0] for job in ids]
    outcomes = replayed(tmp_path, slurm, list(zip(at, jobs, strict=True)))
    assert [row.why for row in outcomes] == ["ended: GrpWall=1 minutes of account wall", ""]


def test_a_factor_of_time_limits_counts_without_safe_as_on_slurm(
    slurm: Sandbox, tmp_path: Path
) -> None:
    """UsageFactorSafe: three minutes are six of four, or one and a half of two."""
    jobs = [Job(qos=qos, cpus=1, seconds=3) for qos in ("twice", "half")]
    ids = [job.submit(slurm) for job in jobs]
    assert slurm.wait(ids[1]) == "COMPLETED"
    until(lambda: "QOSMaxCpuMinutes" in slurm.job(ids[0])["Reason"], "nothing keeps it")
    slurm.run(["scancel", str(ids[0])])
    at = [times(slurm.job(ids[1]))[0]] * 2
    outcomes = replayed(tmp_path, slurm, list(zip(at, jobs, strict=True)))
    assert [row.why for row in outcomes] == ["left out", ""]


def test_jobs_give_way_as_on_slurm(slurm: Sandbox, tmp_path: Path) -> None:
    """By QOS: the lower priority goes first and is requeued, the other is cancelled."""
    fills = Job(cpus=4, seconds=170).submit(slurm)  # what the jobs of `minutes` had
    until(lambda: slurm.job(fills)["JobState"] == "RUNNING", "half of the node is not free")
    jobs = [
        Job(qos="low", cpus=2, seconds=100),
        Job(qos="mid", cpus=1, seconds=100),
        Job(qos="high", cpus=2, seconds=5),
        Job(qos="high", cpus=4, seconds=4),
    ]
    found = replayed(tmp_path, slurm, _one_after_the_other(slurm, jobs))
    slurm.run(["scancel", str(fills)])
    assert [(one.restarts, one.why) for one in found] == [
        (1, ""),
        (0, "gave way to another job: cancelled"),
        (0, ""),
        (0, ""),
    ]


def test_partitions_give_way_as_on_slurm(make_sandbox: MakeSandbox, tmp_path: Path) -> None:
    """By tier, after the partition's GraceTime; one whose mode is OFF keeps its jobs."""
    jobs = [
        Job(vc="kept", cpus=2, seconds=100),
        Job(vc="low", cpus=2, seconds=100),
        Job(vc="high", cpus=2, seconds=5),
    ]
    slurm = make_sandbox(nodes=1, cpus=4, accounting=True, slurm_conf=TIERS)
    found = replayed(tmp_path, slurm, _one_after_the_other(slurm, jobs), TIERS)
    assert [row.restarts for row in found] == [0, 1, 0]
    last = max(
        int(word) for word in slurm.run(["squeue", "-hat", "all", "-o", "%A"]).stdout.split()
    )
    submit_s, start_s, _ = times(slurm.job(last))
    assert start_s - submit_s >= 15  # and until Slurm looks again
    assert found[2].waited_s == pytest.approx(15, abs=1)


def _one_after_the_other(slurm: Sandbox, jobs: Sequence[Job]) -> list[tuple[float, Job]]:
    """Submit jobs, each once the one before runs, with the times of their submissions.

    Checks that the low one alone was requeued, for as long as the replay has it.
    """
    ids, at = list[int](), list[float]()
    for job in jobs:
        ids.append(job.submit(slurm))
        until(lambda: slurm.job(ids[-1])["JobState"] != "PENDING", f"{job} does not start")
        noted_s = moment(slurm.job(ids[-1])["SubmitTime"])  # in whole seconds
        at.append(max(noted_s, at[-1] + 0.1) if at else noted_s)
    assert slurm.wait(ids[-1]) == "COMPLETED"
    low = next(place for place, job in enumerate(jobs) if "low" in (job.qos, job.vc))
    ends = [slurm.job(job) for job in ids]
    assert [int(end["Restarts"]) for end in ends] == [
        int(place == low) for place in range(len(ids))
    ]
    assert ends[low]["JobState"] == "PENDING"
    later_s = moment(ends[low]["EligibleTime"]) - moment(ends[low]["SubmitTime"])
    assert later_s == pytest.approx(REQUEUE_S, abs=3)
    slurm.run(["scancel", *map(str, ids)])
    return list(zip(at, jobs, strict=True))


def moment(text: str) -> float:
    """A time of scontrol in Unix seconds."""
    return datetime.fromisoformat(text).timestamp()
