"""Waits of a what-if table, as Slurm tells them."""

from dataclasses import replace
from typing import Any

import pytest

from slurm_ext.advisor.limits.bounds import PartitionRules
from slurm_ext.advisor.what_if.layout import (
    GpuOption,
    JobLayout,
)
from slurm_ext.advisor.what_if.queue_wait import (
    NO_CLUSTER,
    StartQuery,
    brief,
    machines_of,
    options_for,
    starts,
    submission,
)
from slurm_ext.advisor.what_if.shapes import ClusterNodes
from slurm_ext.core.errors import SlurmError
from slurm_ext.core.records import Submission
from slurm_ext.slurm import MemoryClient, NodeInfo, StartEstimate
from tests.advisor.what_if.what_if_examples import layout


def query(written: JobLayout, **values: Any) -> StartQuery:
    """What is asked about a script with two arguments."""
    job = values.pop("job", Submission(argv=("job.sh", "--lr", "1"), cpus_per_task=4))
    return StartQuery(job=job, script="/x/job.sh", written=written, **values)


@pytest.mark.parametrize(
    ("written", "here", "values", "options"),
    [
        ({}, {}, {}, ()),
        ({}, {"num_workers": 9}, {}, ()),
        ({}, {"cpus_per_task": 5}, {}, ("--cpus-per-task=5",)),
        (
            {"gpus": 2},
            {"gpus": 2, "cpus_per_task": 5},
            {"options": {"cpus-per-gpu": "2"}},
            ("--cpus-per-gpu=3",),
        ),
        ({"gpus": 2}, {"gpus": 2}, {"options": {"cpus-per-gpu": "2"}}, ()),
        (
            {"gpus": 1},
            {"gpus": 2, "cpus_per_task": 8},
            {"options": {"cpus-per-gpu": "4"}, "request": GpuOption()},
            ("--gpus=2",),
        ),
        ({}, {"cpus_per_task": 5}, {"options": {"cpus-per-gpu": "4"}}, ("--cpus-per-task=5",)),
        ({}, {"nodes": 2, "tasks": 2}, {}, ("--nodes=2", "--ntasks=2")),
        ({}, {"tasks": 3}, {}, ("--ntasks=3",)),
        (
            {},
            {"nodes": 2, "tasks": 4},
            {"options": {"ntasks-per-node": "1"}},
            ("--nodes=2", "--ntasks-per-node=2"),
        ),
        (
            {},
            {"nodes": 2, "tasks": 4},
            {"options": {"ntasks-per-node": "1", "ntasks": "1"}},
            ("--nodes=2", "--ntasks-per-node=2", "--ntasks=4"),
        ),
        ({}, {"gpus": 1, "gpu_type": "a"}, {"request": GpuOption()}, ("--gpus=a:1",)),
        ({"gpus": 1}, {"gpus": 1, "gpu_type": "a"}, {"request": GpuOption()}, ("--gpus=a:1",)),
        ({"gpus": 1}, {"gpus": 2}, {}, ()),
    ],
)
def test_the_options_of_a_row(
    written: dict[str, Any], here: dict[str, Any], values: dict[str, Any], options: tuple[str, ...]
) -> None:
    """Only what differs from the script, in the script's own words."""
    asked = query(layout(**written), **values)
    assert options_for(asked, layout(**here)) == options
    assert submission(asked, layout(**here)) == (*options, "/x/job.sh", "--lr", "1")


def test_memory_is_asked_for_as_edits_would_have_it() -> None:
    """The total stays where the CPUs change; with other GPUs it goes with the CPUs."""
    job = Submission(cpus_per_task=4, mem_per_cpu_mib=100)
    asked = query(layout(gpus=1), job=job, request=GpuOption())
    two = layout(gpus=1, cpus_per_task=2)
    assert options_for(asked, two) == ("--cpus-per-task=2", "--mem-per-cpu=200")
    assert options_for(asked, replace(two, gpus=2)) == ("--cpus-per-task=2", "--gpus=2")
    rules = PartitionRules(cpus_per_node=8, mem_per_node_mib=300)
    tight = replace(asked, rules=rules)
    assert options_for(tight, replace(two, cpus_per_task=3))[1] == "--mem-per-cpu=133"


def test_nodes_of_the_jobs_partitions() -> None:
    """The largest count of each; none where there are no nodes."""
    nodes = [
        NodeInfo(name="a", cpus=4, mem_mib=1, partitions=("p",), gres={"gpu": 2, "gpu:x": 2}),
        NodeInfo(name="b", cpus=9, mem_mib=1, partitions=("p", "q"), gres={"gpu:y": 1, "mps": 5}),
        NodeInfo(name="c", cpus=2, mem_mib=1, partitions=("r",), gres={"gpu:x": 1, "gpu:z": 1}),
    ]
    assert machines_of(nodes, "p") == ClusterNodes(nodes=2, cpus=9, gpus=2, gpu_types=("x", "y"))
    assert machines_of(nodes, "q,r") == ClusterNodes(
        nodes=2, cpus=9, gpus=0, gpu_types=("y", "x", "z")
    )
    assert machines_of(nodes, None) == machines_of(nodes, "") == machines_of(nodes, ",")
    assert machines_of(nodes, None).nodes == 3
    assert machines_of(nodes, "none") == ClusterNodes()


@pytest.mark.parametrize(
    ("output", "clause"),
    [
        ("", "sbatch failed"),
        ("\n \n", "sbatch failed"),
        ("first\nlast\x1b \n\n", "last"),
        ("x" * 101, "x" * 100),
        ("scontrol: fatal: Could not establish a configuration source\n", NO_CLUSTER),
    ],
)
def test_a_failure_is_its_last_line(output: str, clause: str) -> None:
    """A hundred characters at most; without any the command's name."""
    assert brief(SlurmError("sbatch --test-only x", 1, output)) == clause


TOO_MANY = "no node has that many"


@pytest.mark.parametrize(
    ("here", "answer", "shown"),
    [
        ({}, StartEstimate(start_s=5), StartEstimate(start_s=5)),
        ({}, StartEstimate(refused="else"), StartEstimate(refused="else")),
        ({}, StartEstimate(refused=TOO_MANY), StartEstimate(refused=TOO_MANY)),
        (
            {"nodes": 3, "tasks": 3},
            StartEstimate(refused=TOO_MANY),
            StartEstimate(refused="more nodes than there are (2)"),
        ),
        (
            {"nodes": 2, "tasks": 3},
            StartEstimate(refused=f"{TOO_MANY} CPUs"),
            StartEstimate(refused=f"{TOO_MANY} CPUs"),
        ),
        (
            {"tasks": 3},
            StartEstimate(refused=TOO_MANY),
            StartEstimate(refused="more CPUs than any node has (8)"),
        ),
        (
            {"gpus": 5, "nodes": 2},
            StartEstimate(refused=TOO_MANY),
            StartEstimate(refused="more GPUs than any node has (2)"),
        ),
        ({"gpus": 4, "nodes": 2}, StartEstimate(refused=TOO_MANY), None),
        ({"gpu_type": "x"}, StartEstimate(start_s=1), StartEstimate(start_s=1)),
        (
            {"gpu_type": "y"},
            StartEstimate(start_s=1),
            StartEstimate(why="Slurm knows no GPUs by that name"),
        ),
    ],
)
def test_what_is_too_much_is_named(
    here: dict[str, Any], answer: StartEstimate, shown: StartEstimate | None
) -> None:
    """Nodes, CPUs of a node, GPUs of a node; just as many as there are is not too much."""
    nodes = ClusterNodes(nodes=2, cpus=8, gpus=2, gpu_types=("x",))
    client = MemoryClient(known_start=lambda _: answer)
    row = layout(**here)
    asked = query(layout(), machines=nodes)
    assert starts(client, asked, [row], 60.0) == {row: shown or answer}


def test_no_time_left_is_the_reason() -> None:
    """With the time that there was."""
    client = MemoryClient()
    why = "Slurm did not answer within 0 s"
    assert starts(client, query(layout()), [layout()], 0.0) == {layout(): StartEstimate(why=why)}


def test_a_failed_question_is_the_reason() -> None:
    """Of the rows that it was about."""

    def fails(_words: tuple[str, ...]) -> StartEstimate:
        raise SlurmError("sbatch --test-only", 1, "down")

    client = MemoryClient(known_start=fails)
    assert starts(client, query(layout()), [layout()], 9.0) == {layout(): StartEstimate(why="down")}
