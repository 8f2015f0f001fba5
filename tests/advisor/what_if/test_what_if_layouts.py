"""Layouts and shapes of a job: which are compared and which are left out."""

from dataclasses import replace
from typing import Any

import pytest

from slurm_ext.advisor.limits.bounds import PartitionRules
from slurm_ext.advisor.what_if.layout import (
    GpuOption,
    JobLayout,
    request_of,
    task_mem_of,
    with_gpus,
    written_layout,
)
from slurm_ext.advisor.what_if.shapes import size
from slurm_ext.core.errors import UsageError
from slurm_ext.core.records import LoaderRun, Submission
from tests.advisor.what_if.drafts import RUN
from tests.advisor.what_if.what_if_examples import layout


@pytest.mark.parametrize(
    ("values", "cpus", "tasks_per_node", "ranks_per_task"),
    [
        ({}, 4, 1, 1),
        ({"tasks": 3, "nodes": 2}, 12, 2, 1),
        ({"tasks": 3, "ranks": 4}, 12, 3, 2),
        ({"tasks": 2, "ranks": 4, "nodes": 2}, 8, 1, 2),
        ({"ranks": 0}, 4, 1, 1),
    ],
)
def test_a_layout_counts_what_it_spreads(
    values: dict[str, Any], cpus: int, tasks_per_node: int, ranks_per_task: int
) -> None:
    """CPUs of all tasks, tasks of the fullest node, ranks of the fullest task."""
    here = layout(**values)
    assert (here.cpus, here.tasks_per_node, here.ranks_per_task) == (
        cpus,
        tasks_per_node,
        ranks_per_task,
    )
    assert size(replace(here, gpu_type="a", gpus=3)) == ("a", 3, 4, 2)
    assert size(here) == ("", 0, 4, 2)


@pytest.mark.parametrize(
    ("option", "here", "words"),
    [
        (GpuOption(), {"gpus": 4}, "--gpus=4"),
        (GpuOption(option="gres"), {"gpus": 4, "nodes": 2}, "--gres=gpu:2"),
        (
            GpuOption(option="gres", others=("tmp:1",)),
            {"gpus": 4, "gpu_type": "a"},
            "--gres=tmp:1,gpu:a:4",
        ),
        (GpuOption(option="gpus-per-node"), {"gpus": 4, "nodes": 2}, "--gpus-per-node=2"),
        (
            GpuOption(option="gpus-per-task"),
            {"gpus": 4, "tasks": 4, "gpu_type": "a"},
            "--gpus-per-task=a:1",
        ),
    ],
)
def test_gpus_in_the_words_of_the_script(
    option: GpuOption, here: dict[str, Any], words: str
) -> None:
    """By the job, the node or the task, with its type and what stands beside it."""
    assert option.words(layout(**here)) == words


@pytest.mark.parametrize(
    ("options", "request_"),
    [
        ({}, GpuOption()),
        ({"gpus": None}, GpuOption()),
        ({"gres": "tmp:1"}, GpuOption()),
        ({"gpus": "2"}, GpuOption(option="gpus", count=2)),
        (
            {"gres": "tmp:1,gpu:a:2,nic"},
            GpuOption(option="gres", kind="a", count=2, others=("tmp:1", "nic")),
        ),
        ({"gres": "gpu:a:1,gpu:b:1"}, None),
        ({"gpus": "1", "gres": "gpu:1"}, None),
        ({"gpus": "1", "gres": "tmp:1"}, GpuOption(option="gpus", count=1)),
        ({"gpus-per-socket": "1"}, None),
        ({"gpus-per-socket": None}, None),
    ],
)
def test_the_gpu_option_of_a_script(
    options: dict[str, str | None], request_: GpuOption | None
) -> None:
    """None where it cannot be varied: two ways at once, two types, or by the socket."""
    assert request_of(options) == request_


@pytest.mark.parametrize(
    ("fields", "request_", "runs", "here"),
    [
        ({}, None, [], layout(cpus_per_task=1, num_workers=3)),
        (
            {"cpus_per_task": 2, "num_tasks": 4, "min_nodes": 2},
            GpuOption(option="gres", kind="a", count=2),
            [],
            JobLayout(
                cpus_per_task=2, num_workers=3, tasks=4, nodes=2, gpus=4, gpu_type="a", ranks=4
            ),
        ),
        (
            {"num_tasks": 2, "cpus_per_tres": "gres:gpu:3"},
            GpuOption(option="gpus-per-task", count=1),
            [],
            JobLayout(cpus_per_task=3, num_workers=3, tasks=2, gpus=2, ranks=2),
        ),
        (
            {"num_tasks": 8, "cpus_per_tres": "gres:gpu:3"},
            GpuOption(count=2),
            [],
            JobLayout(cpus_per_task=1, num_workers=3, tasks=8, gpus=2, ranks=2),
        ),
        (
            {"cpus_per_task": 5, "cpus_per_tres": "gres:gpu:3"},
            None,
            [],
            JobLayout(cpus_per_task=5, num_workers=3),
        ),
        (
            {},
            GpuOption(count=4),
            [replace(RUN, ranks=None), replace(RUN, gpus=2, nodes=None, ranks=1)],
            JobLayout(cpus_per_task=1, num_workers=3, gpus=4, ranks=2),
        ),
        (
            {},
            GpuOption(count=1),
            [replace(RUN, gpus=4, nodes=2, ranks=1), replace(RUN, ranks=7)],
            JobLayout(cpus_per_task=1, num_workers=3, gpus=1, ranks=1),
        ),
        (
            {"num_tasks": 2},
            None,
            [replace(RUN, gpus=1, ranks=9), replace(RUN, gpus=0, ranks=5)],
            JobLayout(cpus_per_task=1, num_workers=3, tasks=2, ranks=5),
        ),
        (
            {},
            GpuOption(count=2),
            [replace(RUN, gpus=0, ranks=5)],
            JobLayout(cpus_per_task=1, num_workers=3, gpus=2, ranks=2),
        ),
    ],
)
def test_a_job_as_it_is_written(
    fields: dict[str, Any], request_: GpuOption | None, runs: list[LoaderRun], here: JobLayout
) -> None:
    """GPUs and CPUs of all, and the ranks that its runs had for each GPU."""
    assert written_layout(Submission(**fields), request_, 3, runs) == replace(here, num_workers=3)


@pytest.mark.parametrize(
    ("written", "gpus", "per_node", "here"),
    [
        ({"gpus": 1}, 2, 4, {"gpus": 2, "cpus_per_task": 8, "ranks": 2}),
        ({"gpus": 1}, 4, 4, {"gpus": 4, "cpus_per_task": 16, "ranks": 4}),
        (
            {"gpus": 1},
            8,
            4,
            {"gpus": 8, "nodes": 2, "tasks": 2, "cpus_per_task": 16, "ranks": 8},
        ),
        ({"gpus": 1}, 8, None, {"gpus": 8, "cpus_per_task": 32, "ranks": 8}),
        ({"gpus": 0}, 2, None, {"gpus": 2, "cpus_per_task": 8, "ranks": 2}),
        (
            {"gpus": 2, "tasks": 2, "ranks": 2},
            4,
            4,
            {"gpus": 4, "tasks": 4, "cpus_per_task": 4, "ranks": 4},
        ),
        (
            {"gpus": 4, "tasks": 2, "ranks": 4},
            2,
            4,
            {"gpus": 2, "tasks": 1, "cpus_per_task": 4, "ranks": 2},
        ),
        (
            {"gpus": 3, "tasks": 2, "ranks": 3},
            6,
            8,
            {"gpus": 6, "tasks": 2, "cpus_per_task": 8, "ranks": 6},
        ),
        (
            {"gpus": 1, "tasks": 2, "ranks": 1},
            2,
            8,
            {"gpus": 2, "tasks": 2, "cpus_per_task": 8, "ranks": 2},
        ),
        (
            {"gpus": 4, "nodes": 2, "tasks": 2, "ranks": 4},
            1,
            4,
            {"gpus": 1, "nodes": 1, "tasks": 1, "cpus_per_task": 2, "ranks": 1},
        ),
        (
            {"gpus": 4, "nodes": 2, "tasks": 2, "ranks": 4},
            2,
            4,
            {"gpus": 2, "nodes": 2, "tasks": 2, "cpus_per_task": 2, "ranks": 2},
        ),
        ({"gpus": 4, "ranks": 1}, 1, 4, {"gpus": 1, "cpus_per_task": 1, "ranks": 1}),
    ],
)
def test_a_job_over_other_gpus(
    written: dict[str, Any], gpus: int, per_node: int | None, here: dict[str, Any]
) -> None:
    """Cores and ranks go with the GPUs; tasks stay one a node, or one for so many GPUs."""
    assert with_gpus(layout(**written), gpus, per_node) == layout(**here)


def test_gpus_that_do_not_divide_are_refused_to_the_word() -> None:
    """Over nodes, or over tasks of several GPUs each."""
    with pytest.raises(UsageError, match=r"^5 GPUs cannot be spread evenly over 2 nodes$"):
        with_gpus(layout(gpus=1), 5, 4)
    with pytest.raises(UsageError, match=r"^3 GPUs cannot be shared by tasks of 2 GPUs each$"):
        with_gpus(layout(gpus=4, tasks=2), 3, 4)


def test_memory_of_a_task_in_another_layout() -> None:
    """By the node it is shared by its tasks; by the CPU it is kept unless the GPUs change."""
    written = layout(gpus=1)
    more = replace(written, gpus=2, cpus_per_task=8)
    node = Submission(mem_per_node_mib=1000, cpus_per_task=4)
    cpu = Submission(mem_per_cpu_mib=10, cpus_per_task=4)
    assert task_mem_of(node, None, written, replace(written, tasks=4, nodes=2)) == 500
    assert task_mem_of(cpu, None, written, replace(written, cpus_per_task=2)) == 40
    assert task_mem_of(cpu, None, written, more) == 80
    assert task_mem_of(Submission(), None, written, more) is None
    rules = PartitionRules(cpus_per_node=8, def_mem_per_cpu_mib=5)
    assert task_mem_of(Submission(), rules, written, more) == 40
