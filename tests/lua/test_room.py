"""An advisor that is wrong: what would have the job rejected, or wait for ever, is refused."""

from typing import Any

import pytest

from tests.fake_advisor import FakeAdvisor, cpus, reply, says
from tests.lua.lua_controller import Controller

TWO_NODES = {"main": {"flag_default": 1, "total_cpus": 32, "total_nodes": 2}}
SIXTEEN, MEMORY = cpus(16), {"min_mem_per_cpu": 400}


def reason(
    controller: Controller,
    edits: dict[str, Any],
    fields: dict[str, Any] | None = None,
    partitions: dict[str, Any] | None = None,
) -> str:
    """Why the advisor's edits were refused; empty if they were taken."""
    with FakeAdvisor(controller.socket, says(reply(edits))):
        result = controller.submit(fields, partitions=partitions or TWO_NODES)
    (line,) = result[b"logged"] or [b"()"]
    return str(line.decode()).partition("(")[2].partition(")")[0]


@pytest.mark.parametrize(
    ("edits", "fields"),
    [
        (cpus(16), {}),
        (cpus(8, tasks=2), {"num_tasks": 2}),
        (cpus(20), {"cpus_per_task": 40, "min_cpus": 40, "pn_min_cpus": 40}),
        (cpus(16), {"partition": "main"}),
        (cpus(60_000), {"partition": "main,other"}),
        (cpus(60_000), {"partition": "of-another-site"}),
    ],
)
def test_what_a_node_has_may_be_asked_for(
    controller: Controller, edits: dict[str, Any], fields: dict[str, Any]
) -> None:
    """So may fewer CPUs than the user wrote; where Slurm tells no node, nothing is checked."""
    assert reason(controller, edits, fields) == ""


@pytest.mark.parametrize(
    ("edits", "fields"),
    [
        (cpus(17), {}),
        (cpus(60_000), {"partition": "main"}),
        (cpus(16, tasks=2), {"num_tasks": 2}),
        (cpus(41), {"cpus_per_task": 40, "min_cpus": 40, "pn_min_cpus": 40}),
    ],
)
def test_more_than_a_node_has_is_refused(
    controller: Controller, edits: dict[str, Any], fields: dict[str, Any]
) -> None:
    """Slurm would reject the job (EnforcePartLimits), or keep it for ever."""
    assert reason(controller, edits, fields) == (
        "answered what is not allowed: more CPUs than a node has"
    )


def test_counts_that_contradict_each_other_are_refused(controller: Controller) -> None:
    """A job has as many CPUs as a task of it, at least."""
    edits = {**cpus(4), "pn_min_cpus": 8}
    assert reason(controller, edits) == "answered what is not allowed: fewer CPUs than a task has"


@pytest.mark.parametrize(("mib", "refused"), [(200, ""), (201, "more memory than the job had")])
def test_a_job_keeps_the_memory_that_it_wrote(
    controller: Controller, mib: int, refused: str
) -> None:
    """400 MiB of one CPU are 200 of each of two; what does not divide is rounded up."""
    edits = {**cpus(2), "min_mem_per_cpu": mib}
    assert reason(controller, edits, MEMORY).endswith(refused)
    assert reason(controller, {**cpus(3), "min_mem_per_cpu": 134}, MEMORY) == ""


def test_a_job_with_memory_by_its_gpu_gets_none_by_its_cpus(controller: Controller) -> None:
    """Slurm hands both to its steps, and srun takes one of them only."""
    edits = {**cpus(2), "min_mem_per_cpu": 200}
    by_gpu = {"mem_per_tres": "gres:gpu:20480"}
    why = "answered what is not allowed: memory by the CPU beside memory by the GPU"
    assert reason(controller, edits, by_gpu) == why
    assert reason(controller, cpus(2), by_gpu) == ""
    assert reason(controller, edits, {"mem_per_tres": ""}) == ""


def test_only_the_sites_own_feature_is_preferred(controller: Controller) -> None:
    """Slurm rejects a job that prefers a feature of no node."""
    assert reason(controller, {"gres": "mps:50", "prefer": "no-such-feature"}) == (
        "answered what is not allowed: a feature of another name"
    )
