"""Limits of accounts and QOS: what a submission may grow to without being rejected."""

import pytest

from slurm_ext.advisor.limits.bounds import PartitionRules, floor_for, limits_for
from slurm_ext.advisor.limits.rules import read_rules
from slurm_ext.advisor.pipeline.edits import edits_for
from slurm_ext.core.records import Decision, Shape, Submission
from slurm_ext.slurm import (
    Accounting,
    Association,
    JobAllowance,
    MemoryClient,
    NodeInfo,
    PartitionInfo,
)
from slurm_ext.slurm.allowances import Allowances

ACCOUNTING = Accounting(
    associations=(
        Association(account="root", allowance=JobAllowance(max_cpus=64)),
        Association(account="lab", parent="root", allowance=JobAllowance(max_cpus=12)),
        Association(account="lab", user="ada", default_qos="normal", qos=("normal", "small")),
        Association(account="lab", user="bob", qos=("normal", "small")),
        Association(
            account="vip", user="ada", qos=("normal",), allowance=JobAllowance(max_mem_mib=4000)
        ),
    ),
    qos={
        "normal": JobAllowance(),
        "small": JobAllowance(max_cpus=2, min_cpus=2),
        "short": JobAllowance(max_cpu_minutes=120),
        "billed": JobAllowance(by_other_means=True),
    },
)
CLUSTER = MemoryClient(
    known_nodes=(NodeInfo(name="n1", cpus=16, mem_mib=64000, partitions=("main", "tight")),),
    known_partitions=(
        PartitionInfo(name="main", default=True, def_mem_per_cpu_mib=1000),
        PartitionInfo(name="tight", qos="small", def_mem_per_cpu_mib=1000),
    ),
    known_accounting=ACCOUNTING,
)


def a_job(**fields: object) -> Submission:
    """A submission of ada's in her lab."""
    return Submission(**{"user_name": "ada", "account": "lab", **fields})  # type: ignore[arg-type] # any field


def most_cpus(job: Submission) -> int | None:
    """CPUs per task that the job may be given; None where its rules are unknown."""
    rules = read_rules(CLUSTER).rules_for(job)
    return None if rules is None else limits_for(job, rules, 64).max_cpus_per_task


@pytest.mark.parametrize(
    ("job", "cpus"),
    [
        (a_job(), 12),  # the account's
        (a_job(account="LAB"), 12),
        (a_job(qos="small"), 2),
        (a_job(qos="small", cpus_per_task=3), 3),  # as written: that is the user's own affair
        (a_job(num_tasks=4), 3),
        (a_job(partition="tight"), 2),  # the partition's QOS
        (a_job(user_name="bob"), 2),  # it has no default QOS: any of its own may be meant
        (a_job(account="vip"), 4),  # 4000 MiB, and each CPU brings 1000
        (a_job(account="vip", mem_per_node_mib=500), 16),
        (a_job(account=None), 4),  # the narrowest of her two accounts
        (a_job(qos="short", time_limit_minutes=30), 4),
        (a_job(qos="short"), 1),  # how long it will run is not known
        (a_job(qos="billed"), 1),
    ],
)
def test_a_raise_stays_within_every_limit_of_account_and_qos(job: Submission, cpus: int) -> None:
    """The narrowest of association, accounts above it, QOS and the partition's QOS holds."""
    assert most_cpus(job) == cpus


@pytest.mark.parametrize(
    "job", [a_job(user_name="eve"), a_job(account="other"), a_job(qos="secret")]
)
def test_unknown_limits_are_no_licence(job: Submission) -> None:
    """Where the association or QOS is not known there are no rules, so the CPUs never change."""
    assert most_cpus(job) is None


def test_a_loop_among_accounts_ends() -> None:
    """What slurmdbd never allows must not hang the advisor either."""
    loop = (
        Association(account="a", parent="b"),
        Association(account="b", parent="a", allowance=JobAllowance(max_cpus=3)),
        Association(account="a", user="ada"),
    )
    found = Allowances(Accounting(associations=loop)).of(a_job(account="a"))
    assert found == JobAllowance(max_cpus=3)


def test_a_job_keeps_the_cpus_that_its_qos_wants_at_least() -> None:
    """MinTRESPerJob: giving back more would have the job rejected."""
    rules = read_rules(CLUSTER).rules_for(a_job(qos="small"))
    assert floor_for(a_job(qos="small", cpus_per_task=8), rules) == 2


@pytest.mark.parametrize(
    "rules",
    [
        PartitionRules(cpus_per_node=4, mem_per_node_mib=400),
        PartitionRules(cpus_per_node=4, allowance=JobAllowance(max_mem_mib=400)),
    ],
)
def test_memory_that_does_not_divide_stays_within_the_limit(rules: PartitionRules) -> None:
    """4 x 100 MiB become 3 x 133, where 3 x 134 would be more than there may be."""
    before, after = (Shape(cpus_per_task=cpus, num_workers=2) for cpus in (4, 3))
    chosen = Decision(action="change", reason="", before=before, after=after)
    job = a_job(cpus_per_task=4, mem_per_cpu_mib=100)
    assert edits_for(job, chosen, rules).min_mem_per_cpu == 133
    assert edits_for(job, chosen, PartitionRules(cpus_per_node=4)).min_mem_per_cpu == 134
