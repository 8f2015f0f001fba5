"""Bounds of a shape at their edges: exact numbers for partition, node, memory and account rules."""

from typing import Any

import pytest

from slurm_ext.advisor.limits.bounds import (
    PartitionRules,
    floor_for,
    limits_for,
    most_per_cpu_mib,
    per_cpu_mib,
    task_mem_mib,
)
from slurm_ext.advisor.pipeline.edits import edits_for
from slurm_ext.core.records import Decision, Edits, Shape, ShapeLimits, Submission
from slurm_ext.core.units import MIB
from slurm_ext.slurm import JobAllowance


def rules(cpus: int = 8, **values: Any) -> PartitionRules:
    """Rules of a partition; limits of account and QOS by their own names."""
    own = {name: values.pop(name) for name in list(values) if name in JobAllowance.__slots__}
    return PartitionRules(cpus_per_node=cpus, allowance=JobAllowance(**own), **values)


def roof(job: Submission, partition: PartitionRules) -> int:
    """Most CPUs of one task."""
    return limits_for(job, partition, 64).max_cpus_per_task


def test_without_rules_nothing_above_what_was_written() -> None:
    """The job's own CPUs are the roof and the node."""
    assert limits_for(Submission(cpus_per_task=3), None, 7) == ShapeLimits(
        max_cpus_per_task=3, node_cores=3, mem_bytes=None, max_workers=7
    )


@pytest.mark.parametrize(
    ("job", "partition", "most"),
    [
        ({}, {}, 8),
        ({"num_tasks": 2}, {}, 4),
        ({"num_tasks": 3}, {}, 2),
        ({"ntasks_per_node": 4}, {}, 2),
        ({"cpus_per_task": 9}, {}, 9),  # never below what is written
        ({}, {"mem_per_node_mib": 6000, "def_mem_per_cpu_mib": 1000}, 6),
        ({"num_tasks": 2}, {"mem_per_node_mib": 6000, "def_mem_per_cpu_mib": 1000}, 3),
        ({"mem_per_cpu_mib": 10}, {"mem_per_node_mib": 6000, "def_mem_per_cpu_mib": 1000}, 8),
        ({"mem_per_node_mib": 10}, {"mem_per_node_mib": 6000, "def_mem_per_cpu_mib": 1000}, 8),
        ({}, {"max_cpus": 5}, 5),
        ({"num_tasks": 2}, {"max_cpus": 5}, 2),
        ({"cpus_per_task": 2}, {"by_other_means": True}, 2),
        ({"time_limit_minutes": 10}, {"max_cpu_minutes": 60}, 6),
        ({"time_limit_minutes": 10}, {"max_cpu_minutes": 59}, 5),
        ({}, {"sum_cpus": 24}, 3),  # room for eight such jobs
        ({"time_limit_minutes": 10}, {"sum_cpu_minutes": 400}, 5),
        ({"time_limit_minutes": 10}, {"max_cpu_minutes": 60, "used_up": True}, 1),
        ({}, {"max_cpu_minutes": 60}, 1),  # without a time limit, its minutes are unknown
        ({}, {"max_mem_mib": 3000, "def_mem_per_cpu_mib": 1000}, 3),
        ({"mem_per_cpu_mib": 1}, {"max_mem_mib": 3000, "def_mem_per_cpu_mib": 1000}, 8),
        ({}, {"max_mem_mib": 3000}, 8),
        ({}, {"max_cpus": 5, "max_mem_mib": 3000, "def_mem_per_cpu_mib": 1000}, 3),
    ],
)
def test_the_roof_is_the_narrowest_limit(
    job: dict[str, Any], partition: dict[str, Any], most: int
) -> None:
    """Node, memory that comes with CPUs, account: whichever allows least."""
    assert roof(Submission(**job), rules(**partition)) == most


@pytest.mark.parametrize(
    ("job", "partition", "least"),
    [
        ({}, {}, 1),
        ({"gres": "gpu:3"}, {}, 3),
        ({"gres": "gpu:3", "num_tasks": 2}, {}, 2),
        ({}, {"min_cpus": 4}, 4),
        ({"num_tasks": 4}, {"min_cpus": 5}, 2),
        ({"mem_per_node_mib": 4000}, {"max_mem_per_cpu_mib": 1000}, 4),
        ({"mem_per_node_mib": 4001}, {"max_mem_per_cpu_mib": 1000}, 5),
        ({"mem_per_node_mib": 4000, "num_tasks": 2}, {"max_mem_per_cpu_mib": 1000}, 2),
        ({"mem_per_cpu_mib": 500, "cpus_per_task": 4}, {"max_mem_per_cpu_mib": 1000}, 2),
    ],
)
def test_the_floor_is_what_gpus_qos_and_memory_need(
    job: dict[str, Any], partition: dict[str, Any], least: int
) -> None:
    """A core a GPU, the QOS's minimum, and CPUs enough for the memory each may bring."""
    assert floor_for(Submission(**job), rules(**partition)) == least


def test_memory_of_a_task_is_its_nodes_share_or_goes_with_its_cpus() -> None:
    """By the node, by the CPU, by the partition's default; else without limit."""
    by_default = rules(def_mem_per_cpu_mib=100)
    assert task_mem_mib(Submission(mem_per_node_mib=1000, num_tasks=3), by_default) == 333
    assert task_mem_mib(Submission(mem_per_cpu_mib=50, cpus_per_task=4), by_default) == 200
    assert task_mem_mib(Submission(cpus_per_task=4), by_default) == 400
    assert task_mem_mib(Submission(cpus_per_task=4), rules()) is None
    assert task_mem_mib(Submission(cpus_per_task=4), None) is None
    limits = limits_for(Submission(mem_per_cpu_mib=50), by_default, 64)
    assert limits.mem_bytes == 50 * MIB


def test_memory_by_the_node_does_not_come_with_cpus() -> None:
    """`--mem=0` asks for the node's: nothing comes with each CPU."""
    assert per_cpu_mib(Submission(mem_per_node_mib=0), rules(def_mem_per_cpu_mib=100)) is None
    assert per_cpu_mib(Submission(mem_per_cpu_mib=0), rules(def_mem_per_cpu_mib=100)) == 100
    assert per_cpu_mib(Submission(), rules()) is None


def test_room_for_each_cpu_is_the_nodes_or_the_accounts() -> None:
    """Whichever has less, over all tasks."""
    job = Submission(num_tasks=2)
    assert most_per_cpu_mib(job, 3, rules(mem_per_node_mib=6000)) == 1000
    assert most_per_cpu_mib(job, 3, rules(mem_per_node_mib=6000, max_mem_mib=600)) == 100
    assert most_per_cpu_mib(job, 3, rules()) is None
    assert most_per_cpu_mib(job, 3, None) is None


def edits(job: Submission, cpus: int, workers: int, partition: PartitionRules | None) -> Edits:
    """The edits of a job that gets `cpus` and `workers`."""
    before = Shape(cpus_per_task=job.cpus_per_task or 1, num_workers=0)
    after = Shape(cpus_per_task=cpus, num_workers=workers)
    return edits_for(
        job, Decision(action="change", reason="", before=before, after=after), partition
    )


def test_edits_of_workers_alone_touch_no_field() -> None:
    """Only the variable that the probe reads."""
    assert edits(Submission(cpus_per_task=2), 2, 3, None) == Edits(env={"DLQUEUE_NUM_WORKERS": "3"})


def test_edits_of_cpus_move_every_field_together() -> None:
    """All tasks' CPUs, and the variables that steps read."""
    made = edits(Submission(cpus_per_task=2, num_tasks=3), 4, 1, rules())
    assert (made.cpus_per_task, made.min_cpus, made.pn_min_cpus) == (4, 12, 4)
    assert made.min_mem_per_cpu is None
    assert made.env["SLURM_CPUS_PER_TASK"] == made.env["SRUN_CPUS_PER_TASK"] == "4"


@pytest.mark.parametrize(
    ("job", "cpus", "partition", "mem_mib"),
    [
        ({"cpus_per_task": 4, "mem_per_cpu_mib": 100}, 2, {}, 200),
        ({"cpus_per_task": 4, "mem_per_cpu_mib": 100}, 3, {}, 134),
        ({"cpus_per_task": 4, "mem_per_cpu_mib": 100}, 8, {}, 50),
        ({"cpus_per_task": 4, "mem_per_cpu_mib": 100}, 3, {"mem_per_node_mib": 400}, 133),
        ({"cpus_per_task": 4}, 2, {"def_mem_per_cpu_mib": 100}, 200),
        ({"cpus_per_task": 4}, 8, {"def_mem_per_cpu_mib": 100}, None),  # more of it is welcome
        ({"cpus_per_task": 4, "mem_per_node_mib": 100}, 2, {"def_mem_per_cpu_mib": 9}, None),
        ({"cpus_per_task": 4}, 2, {}, None),
    ],
)
def test_the_memory_of_a_task_never_shrinks(
    job: dict[str, Any], cpus: int, partition: dict[str, Any], mem_mib: int | None
) -> None:
    """Memory by the CPU keeps its total, rounded up as far as the node has room."""
    made = edits(Submission(**job), cpus, 0, rules(**partition))
    assert made.min_mem_per_cpu == mem_mib
    assert made.env.get("SLURM_MEM_PER_CPU") == (None if mem_mib is None else str(mem_mib))
