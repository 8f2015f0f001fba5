"""An elastic job is never made larger than account, QOS and partition allow."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.control.elastic.limits import EVERY_S, most_gpus
from slurm_ext.core.errors import SlurmError
from slurm_ext.slurm.records import Accounting, Association, JobAllowance, JobInfo, PartitionInfo
from tests.control.elastic.test_elastic_live import Cluster, job, running

NOW_S = 1e6


def limited(**qos: Any) -> Accounting:
    """Ada's account, and the limits of its one QOS."""
    own = Association(account="lab", user="ada", default_qos="normal")
    return Accounting(associations=(own,), qos={"normal": JobAllowance(**qos)})


@pytest.mark.parametrize(
    ("limits", "gpus"),
    [
        ({}, 8),
        ({"max_gpus": 4}, 4),
        ({"max_gpus": 1}, 2),  # as its user asked: Slurm took that
        ({"max_cpus": 12}, 6),
        ({"max_mem_mib": 3000}, 6),
        ({"max_gpu_minutes": 300}, 5),
        ({"max_cpu_minutes": 600}, 5),
        ({"by_other_means": True}, 2),
    ],
)
def test_the_narrowest_limit_bounds_a_size(
    limits: dict[str, Any], gpus: int, tmp_path: Path
) -> None:
    """CPUs, memory and minutes grow with GPUs; the user's own size is always allowed."""
    info = job(1, 2, tmp_path, mem_mib=1000, time_limit_minutes=60)
    assert min(8, most_gpus(info, 2, JobAllowance(**limits))) == gpus


def test_minutes_without_a_time_limit_allow_no_more(tmp_path: Path) -> None:
    """What cannot be computed allows what was asked for."""
    for limits in (JobAllowance(max_gpu_minutes=10**6), JobAllowance(max_cpu_minutes=10**6)):
        assert most_gpus(job(1, 2, tmp_path), 2, limits) == 2


def test_a_running_job_grows_no_further_than_its_qos(tmp_path: Path) -> None:
    """Without the limit it takes all eight GPUs; with it, four; a partition's QOS counts too."""
    cluster = Cluster(tmp_path, running(1, 2, tmp_path, account="lab"))
    cluster.client.known_accounting = limited(max_gpus=4)
    assert cluster.round() == ["1: requeue 2->4 GPUs"]
    by_partition = Cluster(tmp_path / "b", running(2, 2, tmp_path, account="lab"))
    part = replace(limited(), qos={"normal": JobAllowance(), "part": JobAllowance(max_gpus=4)})
    by_partition.client.known_accounting = part
    by_partition.client.known_partitions = (PartitionInfo(name="p", qos="part"),)
    assert by_partition.round() == ["2: requeue 2->4 GPUs"]


def test_while_slurm_does_not_tell_its_limits_nothing_grows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database daemon is away, or the job's association is not known."""
    cluster = Cluster(tmp_path, running(1, 2, tmp_path, account="other"))
    cluster.client.known_accounting = limited()
    assert cluster.round() == []

    def away(_: object) -> None:
        raise SlurmError("sacctmgr", 1, "no slurmdbd")

    monkeypatch.setattr(type(cluster.client), "accounting", away)
    assert cluster.round(NOW_S + EVERY_S) == []
    monkeypatch.undo()
    cluster.client.known_accounting = None  # no limit is enforced
    assert cluster.round(NOW_S + 2 * EVERY_S) == ["1: requeue 2->8 GPUs"]


@pytest.mark.parametrize("reason", ["QOSMaxGRESPerUser", "AssocGrpGRES", "PartitionNodeLimit"])
def test_a_job_that_waits_for_a_limit_has_its_users_size_again(tmp_path: Path, reason: str) -> None:
    """A sum over other jobs is met too, by Slurm's own word; it is not made larger once more."""
    cluster = Cluster(tmp_path, running(1, 2, tmp_path))
    assert cluster.round() == ["1: requeue 2->8 GPUs"]
    cluster.now(1, reason="BeginTime")
    assert cluster.round(NOW_S + 5) == ["1: 2->8 GPUs, start"]
    cluster.now(1, reason=reason)
    assert cluster.round(NOW_S + 10) == ["1: 8->2 GPUs"]
    cluster.now(1, state="RUNNING", reason="None")
    cluster.loop = cluster.anew()  # also after a restart
    assert cluster.round(NOW_S + 10**5) == []
    assert sizes(cluster.client.known_jobs) == [2]


def sizes(jobs: tuple[JobInfo, ...]) -> list[int | None]:
    """GPUs of each job."""
    return [info.gpus for info in jobs]


def test_a_job_at_its_own_size_is_left_to_wait(tmp_path: Path) -> None:
    """Its user met the limit without us: nothing is changed."""
    cluster = Cluster(tmp_path, job(1, 4, tmp_path, reason="QOSMaxGRESPerUser"))
    assert cluster.round() == []


def test_a_users_jobs_together_stay_within_his_qos(tmp_path: Path) -> None:
    """Each alone would fit: two that may have four GPUs each get four together, of eight."""
    jobs = [running(number, 1, tmp_path, account="lab") for number in (1, 2)]
    cluster = Cluster(tmp_path, *jobs)
    cluster.client.known_accounting = limited(max_gpus=4, max_user_gpus=4)
    assert cluster.round() == ["1: requeue 1->2 GPUs", "2: requeue 1->2 GPUs"]
    other = job(3, 2, tmp_path, account="lab", state="RUNNING", comment="")
    beside = Cluster(tmp_path / "b", *jobs, other)
    beside.client.known_accounting = limited(max_gpus=4, max_user_gpus=4)
    assert beside.round() == []


def test_no_users_reports_take_what_another_one_could_use(tmp_path: Path) -> None:
    """Three jobs of eve beside one of ada, all with the same gain: four GPUs each."""
    eve = [running(number, 1, tmp_path, user_name="eve") for number in (1, 2, 3)]
    cluster = Cluster(tmp_path, *eve, running(4, 1, tmp_path))
    cluster.round()
    (pool,) = cluster.loop.status()["pools"]
    wanted = {row["job"]: row["wanted"] for row in pool["jobs"]}
    assert sum(wanted[number] for number in (1, 2, 3)) == 4
    assert wanted[4] == 4
