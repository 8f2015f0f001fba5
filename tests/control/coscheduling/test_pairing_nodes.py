"""Pairing binds jobs to nodes that they can have, and to no others."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.control.coscheduling.nodes import cpus_in_use, is_open
from slurm_ext.slurm import JobInfo, NodeInfo
from tests.control.coscheduling.test_pairing_rounds import Here, job, runs


def tempted(tmp_path: Path, *others: JobInfo, partition: str = "") -> Here:
    """Readers 1 and 2 hurt each other; job 3 goes well with 1 on n3. Nothing is said of n1."""
    here = Here(tmp_path, nodes=3)
    jobs = [runs(1, "n3"), job(2), job(3), *others]
    here.jobs(*(replace(one, partition=partition) for one in jobs))
    return here


def change(here: Here, *nodes: str, **changes: Any) -> None:
    """Have these nodes in another state or partition."""
    here.client.known_nodes = tuple(
        replace(node, **changes) if node.name in nodes else node for node in here.client.known_nodes
    )


ON_N3 = [("delay", (2,), 100), ("bind", 3, "n3")]
FULL = runs(9, "n2", cpus=2, comment="")


def test_an_idle_node_is_taken(tmp_path: Path) -> None:
    """Without an obstacle one of them starts on n1: the tests below are about the obstacle."""
    asked = tempted(tmp_path, FULL).asked()
    assert "n1" in [what[2] for what in asked]


@pytest.mark.parametrize("names", ["n[1-2]", "n1,n2"])
def test_cpus_of_a_job_on_several_nodes_are_not_free(tmp_path: Path, names: str) -> None:
    """A job that fills two nodes leaves no room on either of them."""
    assert tempted(tmp_path, runs(9, names, cpus=4)).asked() == ON_N3


@pytest.mark.parametrize(
    "state",
    ["IDLE+DRAIN", "MIXED+DRAIN", "IDLE+RESERVED", "IDLE+MAINTENANCE", "IDLE+NOT_RESPONDING"],
)
def test_no_job_is_bound_to_a_node_that_takes_none(tmp_path: Path, state: str) -> None:
    """A drained, reserved or silent node is idle for nobody."""
    here = tempted(tmp_path, FULL)
    change(here, "n1", state=state)
    assert here.asked() == ON_N3


def test_no_job_is_bound_to_a_node_of_another_partition(tmp_path: Path) -> None:
    """Slurm would answer BadConstraints and hold the job."""
    here = tempted(tmp_path, FULL, partition="cpu")
    change(here, "n1", partitions=("gpu",))
    change(here, "n2", "n3", partitions=("cpu", "gpu"))
    assert here.asked() == ON_N3


def test_a_job_of_several_partitions_may_have_the_nodes_of_each(tmp_path: Path) -> None:
    """One of its partitions has the node."""
    here = tempted(tmp_path, FULL, partition="cpu,gpu")
    change(here, "n1", partitions=("gpu",))
    change(here, "n2", "n3", partitions=("cpu",))
    assert "n1" in [what[2] for what in here.asked()]


def test_a_job_that_no_node_is_open_to_is_left_to_slurm(tmp_path: Path) -> None:
    """It is not put off, so that Slurm can plan its start."""
    here = Here(tmp_path, nodes=2)
    change(here, "n1", partitions=("late",), state="IDLE+DRAIN")
    here.jobs(runs(1, "n2"), job(2, partition="late"))
    assert here.asked() == []


@pytest.mark.parametrize(
    ("state", "opened"),
    [
        ("IDLE", True),
        ("MIXED+PLANNED", True),
        ("IDLE+CLOUD+POWERED_DOWN", True),
        ("IDLE+NOT_RESPONDING+POWERED_DOWN", True),
        ("IDLE+POWERING_DOWN", False),
        ("MIXED+NOT_RESPONDING+POWERING_UP", False),
        ("ALLOCATED+NOT_RESPONDING", False),
        ("IDLE+FAIL", False),
        ("DOWN+POWERED_DOWN", False),
    ],
)
def test_a_node_is_open_unless_slurm_starts_nothing_there(state: str, opened: bool) -> None:
    """A sleeping node is: Slurm wakes it for the job."""
    assert is_open(NodeInfo(name="n1", cpus=1, mem_mib=1, state=state)) is opened


@pytest.mark.parametrize(
    ("jobs", "used"),
    [
        ([runs(1, "n1", cpus=3)], [("n1", 3)]),
        ([runs(1, "n[1-2]", cpus=5)], [("n1", 3), ("n2", 3)]),
        ([replace(runs(1), state="CONFIGURING"), job(2)], [("n1", 1)]),
        ([replace(runs(1), state="COMPLETED"), runs(2, "n2")], [("n2", 1)]),
        ([runs(1, "", cpus=1), runs(2, cpus=None)], [("n1", 0)]),
    ],
)
def test_cpus_are_in_use_while_a_job_has_its_nodes(
    jobs: Sequence[JobInfo], used: list[tuple[str, int]]
) -> None:
    """From its start to its end, divided evenly over several nodes, and rounded up."""
    assert cpus_in_use(jobs) == used
