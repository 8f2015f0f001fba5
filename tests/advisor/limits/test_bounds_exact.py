"""Bounds of one submission and its accounts to the unit: every edge."""

from dataclasses import replace
from typing import Any

import pytest

from slurm_ext.advisor.limits.bounds import (
    PartitionRules,
    cpus_of,
    floor_for,
    limits_for,
    most_per_cpu_mib,
    tasks_of,
)
from slurm_ext.core.records import ShapeLimits, Submission
from slurm_ext.core.units import MIB
from slurm_ext.slurm import (
    Accounting,
    Association,
    JobAllowance,
)
from slurm_ext.slurm.allowances import Allowances, narrowest


@pytest.mark.parametrize(
    ("fields", "cpus", "tasks"),
    [
        ({}, 1, 1),
        ({"cpus_per_task": 0, "num_tasks": 0}, 1, 1),
        ({"cpus_per_task": 2, "num_tasks": 2}, 2, 2),
        ({"ntasks_per_node": 3}, 1, 3),
        ({"ntasks_per_node": 3, "num_tasks": 5}, 1, 5),
        ({"num_tasks": 0, "ntasks_per_node": 3}, 1, 3),
        ({"cpus_per_task": -1, "num_tasks": -1}, 1, 1),
    ],
)
def test_cpus_and_tasks_are_at_least_one(fields: dict[str, Any], cpus: int, tasks: int) -> None:
    """Slurm's default is one of each, and the job's tasks go before its tasks a node."""
    assert (cpus_of(Submission(**fields)), tasks_of(Submission(**fields))) == (cpus, tasks)


def test_limits_hold_node_memory_and_workers() -> None:
    """The node's cores are those of the partition, however few the job may take."""
    rules = PartitionRules(
        cpus_per_node=8, def_mem_per_cpu_mib=100, allowance=JobAllowance(max_cpus=4)
    )
    assert limits_for(Submission(cpus_per_task=2), rules, 9) == ShapeLimits(
        max_cpus_per_task=4, node_cores=8, mem_bytes=200 * MIB, max_workers=9
    )
    assert limits_for(Submission(), PartitionRules(cpus_per_node=8), 3) == ShapeLimits(
        max_cpus_per_task=8, node_cores=8, mem_bytes=None, max_workers=3
    )


@pytest.mark.parametrize(
    ("fields", "rules", "roof"),
    [
        # Memory by the CPU without a node's memory known, or the other way round, limits nothing.
        ({}, {"mem_per_node_mib": 1}, 8),
        ({}, {"def_mem_per_cpu_mib": 100}, 8),
        # Memory that the job asks for by itself does not grow with its CPUs.
        ({"mem_per_node_mib": 0}, {"mem_per_node_mib": 200, "def_mem_per_cpu_mib": 100}, 8),
        ({"mem_per_cpu_mib": 0}, {"mem_per_node_mib": 200, "def_mem_per_cpu_mib": 100}, 2),
        ({"num_tasks": 2}, {"mem_per_node_mib": 799, "def_mem_per_cpu_mib": 100}, 3),
        ({"num_tasks": 2}, {"mem_per_node_mib": 800, "def_mem_per_cpu_mib": 100}, 4),
    ],
)
def test_memory_by_default_limits_the_cpus(
    fields: dict[str, Any], rules: dict[str, Any], roof: int
) -> None:
    """A CPU more than the node's memory has room for keeps the job waiting for ever."""
    limits = limits_for(Submission(**fields), PartitionRules(cpus_per_node=8, **rules), 64)
    assert limits.max_cpus_per_task == roof


@pytest.mark.parametrize(
    ("fields", "allowance", "roof"),
    [
        ({}, {"max_cpus": 0}, 1),
        ({"num_tasks": 2}, {"max_cpus": 7}, 3),
        ({"time_limit_minutes": 0}, {"max_cpu_minutes": 600}, 1),
        ({"time_limit_minutes": 1}, {"max_cpu_minutes": 5}, 5),
        ({"time_limit_minutes": 1}, {"max_cpu_minutes": 0}, 1),
        ({"time_limit_minutes": 1}, {"max_cpu_minutes": 5, "max_cpus": 3}, 3),
        ({}, {"max_mem_mib": 0}, 1),
        ({}, {"max_mem_mib": 299}, 2),
        ({"num_tasks": 2}, {"max_mem_mib": 799}, 3),
        ({"mem_per_node_mib": 5}, {"max_mem_mib": 299}, 8),
        ({"cpus_per_task": 3}, {"by_other_means": True, "max_cpus": 8}, 3),
    ],
)
def test_accounts_limit_the_whole_job(
    fields: dict[str, Any], allowance: dict[str, Any], roof: int
) -> None:
    """A limit of nothing is a limit, and each is shared by the job's tasks."""
    rules = PartitionRules(
        cpus_per_node=8, def_mem_per_cpu_mib=100, allowance=JobAllowance(**allowance)
    )
    if "num_tasks" in fields:
        rules = replace(rules, cpus_per_node=16)
    assert limits_for(Submission(**fields), rules, 64).max_cpus_per_task == roof


@pytest.mark.parametrize(
    ("fields", "rules", "floor"),
    [
        ({}, None, 1),
        ({"tres_per_node": "gpu:2"}, None, 2),
        ({"num_tasks": 4, "tres_per_node": "gpu:2"}, None, 1),
        ({"tres_per_node": "gpu:5"}, PartitionRules(cpus_per_node=8), 5),
        ({"mem_per_node_mib": 10}, PartitionRules(cpus_per_node=8, max_mem_per_cpu_mib=0), 1),
        ({"mem_per_node_mib": 0}, PartitionRules(cpus_per_node=8, max_mem_per_cpu_mib=5), 1),
        (
            {"mem_per_node_mib": 2, "tres_per_node": "gpu:3"},
            PartitionRules(cpus_per_node=8, max_mem_per_cpu_mib=1),
            3,
        ),
        (
            {"mem_per_node_mib": 4, "tres_per_node": "gpu:3"},
            PartitionRules(cpus_per_node=8, max_mem_per_cpu_mib=1),
            4,
        ),
    ],
)
def test_the_floor_counts_gpus_and_memory(
    fields: dict[str, Any], rules: PartitionRules | None, floor: int
) -> None:
    """Whichever needs more CPUs, shared by the tasks and rounded up."""
    assert floor_for(Submission(**fields), rules) == floor


@pytest.mark.parametrize(
    ("node_mib", "account_mib", "room"),
    [(1000, None, 166), (None, 600, 100), (1000, 600, 100), (600, 1000, 100), (None, None, None)],
)
def test_room_for_memory_is_shared_by_all_cpus(
    node_mib: int | None, account_mib: int | None, room: int | None
) -> None:
    """Two tasks of three CPUs: the lesser of node and account, by six."""
    allowance = JobAllowance(max_mem_mib=account_mib)
    rules = PartitionRules(cpus_per_node=8, mem_per_node_mib=node_mib, allowance=allowance)
    assert most_per_cpu_mib(Submission(num_tasks=2), 3, rules) == room
    assert most_per_cpu_mib(Submission(num_tasks=2), 3, None) is None


def test_the_narrowest_limits_take_each_least_and_the_greatest_minimum() -> None:
    """Field by field; what nobody limits stays without a limit."""
    one = JobAllowance(
        min_cpus=2, max_cpus=8, max_mem_mib=900, max_cpu_minutes=60, max_mps=50, max_shard=4
    )
    other = JobAllowance(
        min_cpus=3, max_cpus=4, max_mem_mib=100, max_cpu_minutes=30, max_mps=20, max_shard=2
    )
    both = replace(other, min_cpus=3)
    assert narrowest([one, other]) == narrowest([other, one]) == both
    assert narrowest([]) == narrowest([JobAllowance()]) == JobAllowance()
    assert narrowest([JobAllowance(), one]) == one
    assert narrowest([JobAllowance(min_cpus=1)]).min_cpus == 1
    assert narrowest([JobAllowance(max_cpus=0), one]).max_cpus == 0
    assert narrowest([JobAllowance(by_other_means=True), one]).by_other_means is True
    assert narrowest([one]).by_other_means is False


def test_sixty_four_accounts_above_are_looked_at() -> None:
    """The sixty-fifth is one too many: a loop must end."""

    def limited(level: int) -> int | None:
        chain = [
            Association(
                account=f"a{n}",
                parent=f"A{n + 1}",
                allowance=JobAllowance(max_cpus=5 if n == level else None),
            )
            for n in range(70)
        ]
        accounting = Accounting(associations=(*chain, Association(account="A0", user="ada")))
        found = Allowances(accounting).of(Submission(user_name="ada"))
        assert found is not None
        return found.max_cpus

    assert [limited(level) for level in (0, 1, 63, 64)] == [5, 5, 5, None]


@pytest.mark.parametrize(
    ("qos", "default", "cpus"),
    [
        ("a,b", "", 2),
        ("b", "", 3),
        (None, "c", 4),
        (None, "", 2),
        ("c", "a", 4),
    ],
)
def test_the_qos_of_a_job_is_its_own_else_the_default_else_any(
    qos: str | None, default: str, cpus: int
) -> None:
    """Several that are asked for all count."""
    own = Association(account="x", user="ada", default_qos=default, qos=("a", "b", "c"))
    limits = {name: JobAllowance(max_cpus=n) for name, n in (("a", 2), ("b", 3), ("c", 4))}
    allowances = Allowances(Accounting(associations=(own,), qos=limits))
    found = allowances.of(Submission(user_name="ada", qos=qos))
    assert found is not None
    assert found.max_cpus == cpus
    narrower = allowances.of(Submission(user_name="ada", qos="c"), ["b"])
    assert narrower is not None
    assert narrower.max_cpus == 3
    assert allowances.of(Submission(user_name="ada", qos="c"), ["b", "z"]) is None
