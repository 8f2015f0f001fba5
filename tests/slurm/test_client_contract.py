"""What every SlurmClient promises: the commands, pyslurm, and the one that is nothing but records.

pyslurm is tried wherever it is installed for the Slurm that is there (slurm-facts, section 6).
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import count

import pytest

from slurm_ext.core.errors import MissingError, SlurmError
from slurm_ext.sandbox import Sandbox
from slurm_ext.slurm import (
    CommandClient,
    JobInfo,
    MemoryClient,
    NodeInfo,
    PartitionInfo,
    PowerCommand,
    ResizeRequest,
    SlurmClient,
)
from tests.conftest import MakeSandbox
from tests.whole import until

UNKNOWN = 4_000_000
GRES = "--gres=gpu:1"
# Nobody sleeps by itself, but nodes can be told to.
SLUMBER = "SuspendProgram=/bin/true\nResumeProgram=/bin/true\nSuspendTime=1000000"
WEIGHED = "PriorityType=priority/multifactor\nPriorityWeightPartition=1000"
NO_PYSLURM = pytest.mark.skipif(
    find_spec("pyslurm") is None, reason="needs pyslurm, built for the Slurm that is installed"
)


@dataclass(frozen=True, slots=True)
class World:
    """A client, and a way to have a job: held, or running on n1."""

    client: SlurmClient
    held: Callable[[], int]
    running: Callable[[], int]
    node: str

    def job(self, job_id: int) -> JobInfo:
        """As the client lists it."""
        (found,) = [job for job in self.client.jobs() if job.job_id == job_id]
        return found


@pytest.fixture(scope="module")
def slurm(make_module_sandbox: MakeSandbox) -> Sandbox:
    """Two nodes of two GPUs, priorities that a nice can lower, and power saving."""
    return make_module_sandbox(nodes=2, cpus=2, gpus=2, slurm_conf=f"{SLUMBER}\n{WEIGHED}")


@pytest.fixture(
    params=[
        pytest.param("memory"),
        pytest.param("commands", marks=pytest.mark.slurm),
        pytest.param("pyslurm", marks=[pytest.mark.slurm, NO_PYSLURM]),
    ]
)
def world(request: pytest.FixtureRequest) -> World:
    """One that every promise below holds in."""
    if request.param == "memory":
        return _in_memory()
    sandbox: Sandbox = request.getfixturevalue("slurm")
    return _in_slurm(sandbox, _client(request.param, str(sandbox.layout.slurm_conf)))


def _client(name: str, slurm_conf: str) -> SlurmClient:
    if name == "commands":
        return CommandClient(slurm_conf=slurm_conf)
    from slurm_ext.slurm.pyslurm_client import open_pyslurm

    try:
        return open_pyslurm(slurm_conf=slurm_conf)
    except MissingError as error:
        pytest.skip(str(error))


def _in_memory() -> World:
    client = MemoryClient(
        obeys=True,
        known_nodes=(NodeInfo(name="n1", cpus=2, mem_mib=1024, gres={"gpu": 2}, state="IDLE"),),
        known_partitions=(PartitionInfo(name="main", default=True),),
        known_config={"ClusterName": "memory"},
    )
    ids = count(1)

    def made(state: str, priority: int | None, reason: str) -> int:
        job = JobInfo(
            job_id=next(ids),
            state=state,
            priority=priority,
            reason=reason,
            cpus=1,
            tasks=1,
            gpus=1,
            node_count=1,
        )
        client.known_jobs = (*client.known_jobs, job)
        return job.job_id

    return World(
        client,
        lambda: made("PENDING", None, "JobHeldUser"),
        lambda: made("RUNNING", 1000, "None"),
        "n1",
    )


def _in_slurm(slurm: Sandbox, client: SlurmClient) -> World:
    def running() -> int:
        job_id, _ = slurm.sbatch("--requeue", GRES, "--wrap", "sleep 600")
        until(lambda: slurm.job(job_id).get("JobState") == "RUNNING", "it does not run")
        return job_id

    held = lambda: slurm.sbatch("--hold", GRES, "--wrap", "true")[0]  # noqa: E731 (short)
    return World(client, held, running, slurm.nodes[-1])


def test_listings_are_there(world: World) -> None:
    """Nodes, partitions and configuration, each by its name."""
    assert world.node in [node.name for node in world.client.nodes()]
    assert [part.name for part in world.client.partitions() if part.default] == ["main"]
    assert world.client.config()["ClusterName"]


def test_a_job_is_held_and_released(world: World) -> None:
    """A held one has no priority and says so; a released one has."""
    job_id = world.held()
    job = world.job(job_id)
    assert (job.state, job.priority) == ("PENDING", None)
    assert job.reason.startswith("JobHeld")
    world.client.delay([job_id], 3600)  # so that it stays
    world.client.release(job_id)
    assert world.job(job_id).priority
    world.client.hold(job_id)
    assert world.job(job_id).priority is None


@pytest.mark.parametrize("nice", [70, -30, 0])
def test_a_nice_is_taken_from_the_priority(world: World, nice: int) -> None:
    """By as many points, up or down, however often; the listing tells it."""
    job_id = world.held()
    world.client.delay([job_id], 3600)
    world.client.release(job_id)
    before = world.job(job_id).priority
    assert before is not None
    for number in (5, nice):
        world.client.set_nice(job_id, number)
    job = world.job(job_id)
    assert (job.nice, job.priority) == (nice, before - nice)


def test_a_waiting_job_gets_another_shape(world: World) -> None:
    """GPUs, tasks and their CPUs; what is not told stays."""
    job_id = world.held()
    assert world.job(job_id).gpus == 1
    world.client.resize(job_id, ResizeRequest(gpus_per_node=2))
    assert (world.job(job_id).gpus, world.job(job_id).cpus) == (2, 1)
    world.client.resize(job_id, ResizeRequest(tasks=2, cpus_per_task=1))
    job = world.job(job_id)
    assert (job.gpus, job.tasks, job.cpus) == (2, 2, 2)


def test_a_running_job_waits_again(world: World) -> None:
    """Its restarts are counted; held, it stays until it is released."""
    job_id = world.running()
    world.client.requeue(job_id, held=True)
    until(lambda: world.job(job_id).state == "PENDING", "it does not wait")
    job = world.job(job_id)
    assert (job.restarts, job.priority) == (1, None)


def test_a_waiting_job_is_bound_and_freed(world: World) -> None:
    """To one node, then to none."""
    job_id = world.held()
    world.client.bind(job_id, world.node)
    assert world.job(job_id).required_nodes == world.node
    world.client.bind(job_id, None)
    assert world.job(job_id).required_nodes == ""


@pytest.mark.parametrize(
    "change",
    [
        lambda client: client.set_nice(UNKNOWN, 5),
        lambda client: client.hold(UNKNOWN),
        lambda client: client.release(UNKNOWN),
        lambda client: client.resize(UNKNOWN, ResizeRequest(gpus_per_node=2)),
    ],
)
def test_an_unknown_job_is_an_error(world: World, change: Callable[[SlurmClient], None]) -> None:
    """One that the caller handles: jobs end at any time."""
    with pytest.raises(SlurmError, match=r"[Ii]nvalid job id"):
        change(world.client)


def test_a_node_is_told_to_sleep(world: World) -> None:
    """Its state says so, and another's does not; last, for what it does to the node."""
    world.client.power([world.node], PowerCommand.DOWN)
    until(lambda: "POWER" in _states(world)[world.node], f"{_states(world)}")
    with pytest.raises(SlurmError, match=r"[Ii]nvalid node name"):
        world.client.power(["nobody"], PowerCommand.DOWN)


def _states(world: World) -> dict[str, str]:
    return {node.name: node.state for node in world.client.nodes()}


@pytest.mark.skipif(find_spec("pyslurm") is not None, reason="pyslurm is there")
def test_an_absent_pyslurm_is_told() -> None:
    """It is looked for only where a setting asks for it."""
    from slurm_ext.core.settings.document import Settings
    from slurm_ext.slurm import open_client

    with pytest.raises(MissingError, match=r"slurm_client is pyslurm.*set site\.slurm_client"):
        open_client(Settings(values={"site.slurm_client": "pyslurm"}))
