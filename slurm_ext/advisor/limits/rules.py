"""Every partition's rules, read from the cluster."""

from collections.abc import Iterable, Mapping

from slurm_ext.advisor.limits.bounds import PartitionRules
from slurm_ext.advisor.limits.gpu_pools import pool_of
from slurm_ext.advisor.limits.partition_limits import ClusterRules
from slurm_ext.core.errors import SlurmError
from slurm_ext.core.settings.document import Settings
from slurm_ext.core.settings.slurm_place import slurm_bin
from slurm_ext.slurm import CommandClient, NodeInfo, PartitionInfo, SlurmClient
from slurm_ext.slurm.allowances import Allowances
from slurm_ext.slurm.listing import keeps_cores

_HIDING = {"jobs", "usage"}  # of PrivateData: either keeps users from others' jobs


def client_of(settings: Settings) -> CommandClient:
    """The cluster that the settings name."""
    return CommandClient(bin_dir=slurm_bin(settings), slurm_conf=settings["paths.slurm_conf"])


def read_rules(client: SlurmClient) -> ClusterRules:
    """Every partition's rules and what accounts allow. Raises SlurmError."""
    nodes, config = client.nodes(), client.config()
    partitions, accounting = client.partitions(), client.accounting()
    rules = {p.name: _rules(p, _nodes_of(p, nodes), config) for p in partitions}
    return ClusterRules(
        partitions={name: rule for name, rule in rules.items() if rule is not None},
        default=next((p.name for p in partitions if p.default), None),
        qos={p.name: p.qos for p in partitions if p.qos},
        minutes={p.name: p.default_time_minutes or p.max_time_minutes for p in partitions},
        allowances=None if accounting is None else Allowances(accounting),
        pools={p.name: pool_of(p, _nodes_of(p, nodes), config) for p in partitions},
        operators=_operators(client),
        task_prolog=bool(config.get("TaskProlog")),
        hides_others=bool(_HIDING & set(config.get("PrivateData", "").lower().split(","))),
    )


def _operators(client: SlurmClient) -> frozenset[str]:
    """Nobody where slurmdbd does not answer: limits do not wait for who may see what."""
    try:
        return client.operators()
    except SlurmError:
        return frozenset()


def _rules(
    partition: PartitionInfo, nodes: list[NodeInfo], config: Mapping[str, str]
) -> PartitionRules | None:
    """The partition's rules on its smallest node; a partition's own memory rules go first."""
    if not nodes:
        return None
    per_node = partition.def_mem_per_node_mib or partition.def_mem_per_cpu_mib
    by_gpu = (partition.job_defaults or config.get("JobDefaults", "")).lower()
    return PartitionRules(
        cpus_per_node=_least([*(_cpus(n, partition) for n in nodes), partition.max_cpus_per_node])
        or 1,
        mem_per_node_mib=_least([*(n.mem_mib for n in nodes), partition.max_mem_per_node_mib]),
        def_mem_per_cpu_mib=partition.def_mem_per_cpu_mib
        or (None if per_node else _mib(config, "DefMemPerCPU")),
        max_mem_per_cpu_mib=partition.max_mem_per_cpu_mib or _mib(config, "MaxMemPerCPU"),
        keeps_cores=keeps_cores(config),
        whole_nodes=partition.exclusive,
        cpus_by_gpu="defcpupergpu" in by_gpu,
        mem_by_gpu="defmempergpu" in by_gpu,
    )


def _cpus(node: NodeInfo, partition: PartitionInfo) -> int:
    """CPUs of the node that the partition's jobs may have."""
    per_socket = partition.max_cpus_per_socket
    return min(node.cpus, node.sockets * per_socket) if per_socket else node.cpus


def _nodes_of(partition: PartitionInfo, nodes: Iterable[NodeInfo]) -> list[NodeInfo]:
    return [node for node in nodes if partition.name in node.partitions]


def _mib(config: Mapping[str, str], key: str) -> int | None:
    text = config.get(key, "")
    return int(text) or None if text.isdecimal() else None


def _least(values: Iterable[int | None]) -> int | None:
    return min((value for value in values if value), default=None)
