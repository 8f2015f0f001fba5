"""A partition that does not take a waiting job: the limits that it breaks, and other partitions."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from slurm_ext.core.gpu_request import parse_gres
from slurm_ext.slurm.hostlist import expand
from slurm_ext.slurm.records import JobInfo, NodeInfo, PartitionInfo

REASONS = frozenset(
    {"PartitionConfig", "PartitionTimeLimit", "PartitionNodeLimit", "PartitionDown"}
    | {"PartitionInactive", "BadConstraints", "AccountNotAllowed", "QOSNotAllowed"}
)
_CLOSED = {"DOWN", "INACTIVE", "DRAIN"}
_APART = " (--constraint and --nodelist apart)"  # which nobody looked at


def partition_of(
    job: JobInfo, partitions: Sequence[PartitionInfo], nodes: Sequence[NodeInfo]
) -> dict[str, Any] | None:
    """`{kind, partitions: [{name, state, conflicts: [{what, asked, limit}]}], others}`.

    A conflict's `what` is minutes, nodes, cpus_per_node, mem_mib_per_node, mem_mib_per_cpu, account
    or qos. `others`: partitions without any, whose nodes have what it asks for; none where Slurm
    says that constraints are bad. None: Slurm's reason is another one.
    """
    if job.reason not in REASONS:
        return None
    own = job.partition.split(",")
    rows: list[dict[str, Any]] = [
        {
            "name": partition.name,
            "state": partition.state,
            "conflicts": list(_conflicts(job, partition)),
        }
        for partition in partitions
    ]
    fit = [row["name"] for row in rows if not row["conflicts"] and row["state"] == "UP"]
    if job.reason == "BadConstraints":
        fit = []  # Slurm does not say which, and they may hold everywhere
    return {
        "kind": "partition",
        "partitions": [row for row in rows if row["name"] in own],
        "others": [name for name in fit if name not in own and _hold(job, name, nodes)],
    }


def _hold(job: JobInfo, partition: str, nodes: Sequence[NodeInfo]) -> bool:
    """True if enough nodes of the partition have the CPUs, memory and GPUs that it asks for."""
    count = job.node_count or 1
    cpus, mem, gpus = (-(-(n or 0) // count) for n in (job.cpus, job.mem_mib, job.gpus))
    items = parse_gres(job.gres)
    named = {f"{item.kind}:{item.type}".rstrip(":"): item.kind for item in items}
    gres = {"gpu": gpus, **{name: gpus if kind == "gpu" else 1 for name, kind in named.items()}}
    fit = [
        node
        for node in nodes
        if (partition in node.partitions and node.cpus >= cpus and node.mem_mib >= mem)
        and all(node.gres.get(name, 0) >= least for name, least in gres.items())
    ]
    return len(fit) >= count


def _conflicts(job: JobInfo, partition: PartitionInfo) -> Iterator[dict[str, Any]]:
    nodes = job.node_count or 1
    cpus, mem = (None if n is None else -(-n // nodes) for n in (job.cpus, job.mem_mib))
    there = len(expand(partition.nodes)) if partition.nodes else None
    most = min(filter(None, (partition.max_nodes, there)), default=None)
    for what, wanted, limit in (
        ("minutes", job.time_limit_minutes, partition.max_time_minutes),
        ("nodes", job.node_count, most),
        ("cpus_per_node", cpus, partition.max_cpus_per_node),
        ("mem_mib_per_node", mem, partition.max_mem_per_node_mib),
        ("mem_mib_per_cpu", mem // cpus if mem and cpus else None, partition.max_mem_per_cpu_mib),
    ):
        if wanted is not None and limit is not None and wanted > limit:
            yield {"what": what, "asked": wanted, "limit": limit}
    if partition.min_nodes and job.node_count and job.node_count < partition.min_nodes:
        yield {"what": "least_nodes", "asked": job.node_count, "limit": partition.min_nodes}
    yield from _names(job, partition)


def _names(job: JobInfo, partition: PartitionInfo) -> Iterator[dict[str, Any]]:
    for what, listed, own in (("account", "accounts", job.account), ("qos", "qos", job.qos)):
        allowed, denied = (kind.get(listed) for kind in (partition.allowed, partition.denied))
        if own and ((allowed and own not in allowed) or (denied and own in denied)):
            yield {"what": what, "asked": own, "limit": ",".join(allowed or ()) or None}


def lines(cause: Mapping[str, Any]) -> Iterator[str]:
    """For people: each conflict, the state of a closed partition, and others that would take it."""
    for row in cause["partitions"]:
        for conflict in row["conflicts"]:
            yield f"limit:    partition {row['name']}: {_said(conflict)}"
        if row["state"] in _CLOSED:
            yield f"closed:   partition {row['name']} is {row['state']}: it starts no job"
    if cause["others"]:
        yield f"instead:  {', '.join(cause['others'])} would take it as it is{_APART}"


def _said(conflict: Mapping[str, Any]) -> str:
    what, wanted, limit = conflict["what"], conflict["asked"], conflict["limit"]
    if what in ("account", "qos"):
        only = f", only {limit}" if limit else ""
        return f"not for {what} {wanted}{only}"
    bound = "at least" if what == "least_nodes" else "at most"
    return f"{bound} {_amount(what, limit)}, it asks for {_amount(what, wanted)}"


def _amount(what: str, value: float) -> str:
    from slurm_ext.core.units import format_minutes
    from slurm_ext.report.formatting import counted, shown

    if what == "minutes":
        return format_minutes(value)
    if what.startswith("mem_mib"):
        return f"{shown(value * 2**20, 'bytes')} a {what.rpartition('_')[2]}"
    return f"{counted(value, 'CPU')} a node" if what == "cpus_per_node" else counted(value, "node")
