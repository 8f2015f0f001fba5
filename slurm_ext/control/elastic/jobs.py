"""Jobs whose size may change, the GPUs for them, and jobs left alone with the reason. Pure.

Opted in: `DLQUEUE_ELASTIC=MIN-MAX` (GPUs) in the job's comment, else in its environment
(core/elastic_requests.py). Jobs that did not opt in come first: what they hold, and what those wait
for that could start now, is not divided.
"""

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from types import MappingProxyType

from slurm_ext.control.coscheduling.jobs import words
from slurm_ext.control.coscheduling.nodes import CLOSED, SILENT
from slurm_ext.control.queue.jobs import ITS_TURN, OFF
from slurm_ext.core.elastic_requests import BAD, parse_bounds, requested_bounds
from slurm_ext.core.gpu_request import parse_gres
from slurm_ext.core.settings.document import Settings
from slurm_ext.slurm.hostlist import expand
from slurm_ext.slurm.records import JobInfo, NodeInfo, ResizeRequest

ANYBODY = "*"
OPTED_OUT = "its comment says dlqueue=off"
HELD_STATES = frozenset({"RUNNING", "COMPLETING", "SUSPENDED", "CONFIGURING"})
# Words in the state of a node that a job cannot have; DOWN is in POWERED_DOWN too.
UNUSABLE = ("DOWN", SILENT, *CLOSED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Resizable:
    """A job that opted in, and may be changed now."""

    info: JobInfo
    least: int
    most: int

    @property
    def name(self) -> str:
        """Its job id."""
        return str(self.info.job_id)

    @property
    def gpus(self) -> int:
        """GPUs that it has or requests."""
        return self.info.gpus or 0

    @property
    def runs(self) -> bool:
        """True if it runs: a change is a restart."""
        return self.info.state == "RUNNING"

    @property
    def user(self) -> str:
        """Its user, by the number where no name is known."""
        return self.info.user_name or f"#{self.info.user_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ElasticPool:
    """One partition's jobs that may be resized, and the GPUs that they share."""

    partition: str
    per_node: int
    gpus: int
    jobs: Sequence[Resizable]
    most: Mapping[str, int] = field(default_factory=dict)  # GPUs of a user's jobs; none: no limit


def bounds_of(job: JobInfo, variable: str | None = None) -> tuple[int, int] | None:
    """Fewest and most GPUs that its owner named; None: it did not opt in so that it counts."""
    return None if OFF in words(job) else parse_bounds(requested_bounds(words(job), variable))


def look(
    jobs: Iterable[JobInfo],
    nodes: Iterable[NodeInfo],
    settings: Settings,
    ours: Iterable[int],
    variables: Mapping[int, str] = MappingProxyType({}),
) -> tuple[list[ElasticPool], dict[str, str]]:
    """Pools by partition, and why others that opted in are left alone.

    `ours` wait by our doing; `variables` are what environments said, by job.
    """
    alive = [job for job in jobs if not job.ended]
    opted_in, left_alone = dict[str, list[Resizable]](), dict[str, str]()
    for job in alive:
        variable = variables.get(job.array_job_id or job.job_id)
        if requested_bounds(words(job), variable) is None:
            continue
        why = _cannot(job) or _stays(job, settings) or _waits_for(job, set(ours))
        bounds = bounds_of(job, variable)
        if why is not None or bounds is None:
            left_alone[job.named] = why or (OPTED_OUT if OFF in words(job) else BAD)
            continue
        resizable = Resizable(info=job, least=bounds[0], most=bounds[1])
        opted_in.setdefault(job.partition, []).append(resizable)
    pools, without = _pools(opted_in, [node for node in nodes if _usable(node)], alive)
    return pools, left_alone | without


def is_taken_back(job: JobInfo, settings: Settings, variable: str | None) -> bool:
    """True if its user or the settings leave it alone, whatever it waits for."""
    stays = bounds_of(job, variable) is None or _stays(job, settings) is not None
    return stays and _cannot(job) is None


def _cannot(job: JobInfo) -> str | None:
    """Reason why no size can be given to it."""
    if job.array_job_id is not None or job.het_job_id is not None:
        return "it is an array or a part of a heterogeneous job"
    if not job.gpus:
        return "it asks for no GPU"
    if any(item.type for item in parse_gres(job.gres) if item.kind == "gpu"):
        return "it asks for GPUs of one type, which an update would lose"
    return None


def _stays(job: JobInfo, settings: Settings) -> str | None:
    """Reason in the job or the settings why it is left alone, however long it waits."""
    if job.reservation:
        return f"it has a place in the reservation {job.reservation}"
    if "," in job.partition:
        return "it asks for several partitions"
    named = {"partitions": job.partition, "accounts": job.account, "users": job.user_name}
    for key, name in named.items():
        allowed = settings[f"elastic.{key}"]
        if ANYBODY not in allowed and name not in allowed:
            return f"elastic.{key} does not have its {key[:-1]}"
    return None


def _waits_for(job: JobInfo, ours: set[int]) -> str | None:
    """Reason other than its turn why it cannot be changed now."""
    if job.state == "RUNNING":
        return None if job.requeues else "it runs, and its user forbids a requeue"
    if job.state != "PENDING":
        return f"it is {job.state}"
    waits = job.reason in ITS_TURN or job.job_id in ours
    return None if job.priority and waits else f"it waits for {job.reason or 'its release'}"


def _usable(node: NodeInfo) -> bool:
    return not any(word in node.state for word in UNUSABLE) and gpus_of(node) > 0


def gpus_of(node: NodeInfo) -> int:
    """GPUs of all types: `gpu`, or the sum of gpu:TYPE where there are only these."""
    if "gpu" in node.gres:
        return node.gres["gpu"]
    return sum(count for name, count in node.gres.items() if name.startswith("gpu:"))


def _pools(
    opted_in: Mapping[str, Sequence[Resizable]],
    usable: Sequence[NodeInfo],
    alive: Sequence[JobInfo],
) -> tuple[list[ElasticPool], dict[str, str]]:
    """Pools, no node in two of them, and jobs left alone for that reason."""
    pools, left_alone = list[ElasticPool](), dict[str, str]()
    taken = dict[str, str]()  # by node: whose it is
    for partition, group in sorted(opted_in.items()):
        nodes = [node for node in usable if partition in node.partitions]
        shared = [taken[node.name] for node in nodes if node.name in taken]
        if shared:
            why = f"its partition shares nodes with {shared[0]}, where GPUs are divided"
            left_alone |= {resizable.info.named: why for resizable in group}
        elif nodes:
            taken |= {node.name: partition for node in nodes}
            pools.append(_pool(partition, group, nodes, alive))
    return pools, left_alone


def _pool(
    partition: str,
    opted_in: Sequence[Resizable],
    nodes: Sequence[NodeInfo],
    jobs: Sequence[JobInfo],
) -> ElasticPool:
    counts = [gpus_of(node) for node in nodes]
    own = {resizable.info.job_id for resizable in opted_in}
    names = frozenset(node.name for node in nodes)
    others = sum(
        job.gpus
        for job in jobs
        if job.gpus and job.job_id not in own and _counts(job, partition, names)
    )
    there = max(0, sum(counts) - others)
    return ElasticPool(partition=partition, per_node=min(counts), gpus=there, jobs=opted_in)


def _counts(job: JobInfo, partition: str, names: Set[str]) -> bool:
    """True if its GPUs are not free for others: it holds them, or could start any time.

    All of them count where only some are on the pool's nodes, or where its nodes are not told.
    """
    here = partition in job.partition.split(",")
    if job.state in HELD_STATES:
        return not names.isdisjoint(expand(job.nodes)) if job.nodes else here
    return here and job.state == "PENDING" and bool(job.priority) and job.reason in ITS_TURN


# gpus, nodes, tasks, cpus_per_task (0: unknown), as the user wrote the job
RequestedSize = dict[str, int]


def requested_size(job: JobInfo) -> RequestedSize:
    """Size that a job requests before its first change."""
    tasks, cpus = job.tasks or 0, job.cpus or 0
    return {
        "gpus": job.gpus or 0,
        "nodes": job.node_count or 1,
        "tasks": tasks,
        "cpus_per_task": cpus // tasks if tasks and cpus % tasks == 0 else 0,
    }


def shape_of(size: RequestedSize, gpus: int, per_node: int) -> ResizeRequest:
    """Return the size for `gpus` GPUs, on as few nodes as they need, the same number on each.

    A number that cannot be alike on these (5 on nodes of 4) goes on the nodes that its user wrote.
    One task for each GPU, or for each node, stays so. Slurm sums CPUs up from CPUs per task.
    """
    nodes = -(-gpus // per_node)
    if gpus % nodes:
        nodes = size["nodes"]
    by = {size["nodes"]: nodes, size["gpus"]: gpus}
    return ResizeRequest(
        nodes=nodes,
        gpus_per_node=gpus // nodes,
        tasks=by.get(size["tasks"]),
        cpus_per_task=size["cpus_per_task"] or None,
    )


def pool_json(pool: ElasticPool, sizes: Mapping[str, int]) -> dict[str, object]:
    """Status of one pool."""
    rows = [
        {
            "job": resizable.info.job_id,
            "gpus": resizable.gpus,
            "runs": resizable.runs,
            "least": resizable.least,
            "most": resizable.most,
            "wanted": sizes.get(resizable.name),
        }
        for resizable in pool.jobs
    ]
    return {"partition": pool.partition, "gpus": pool.gpus, "jobs": rows}
