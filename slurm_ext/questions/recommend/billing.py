"""Node types of a running Slurm, priced by its partitions' TRESBillingWeights. Pure.

A whole node's billing an hour is the sum of weight times count over its CPUs, its memory (in the
weight's unit, MiB without one) and its GPUs; PriorityFlags=MAX_TRES takes the largest of CPU,
memory and GRES instead (slurm.conf(5)). A GPU's own type counts before GPUs of any type.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

from slurm_ext.core.errors import InputError
from slurm_ext.core.units import parse_tres, power_of_1024
from slurm_ext.policy.node_shapes import NodeType
from slurm_ext.slurm.records import NodeInfo, PartitionInfo

_WEIGHT = re.compile(r"([0-9]+(?:\.[0-9]+)?|\.[0-9]+)([KMGTP]?)", re.IGNORECASE)
MIB = 1 << 20


def slurm_table(
    nodes: Sequence[NodeInfo], partitions: Sequence[PartitionInfo], *, max_tres: bool = False
) -> tuple[NodeType, ...]:
    """One type for each partition and kind of node with GPUs. Raises InputError without a price."""
    counts: dict[tuple[str, str, int, int, int], int] = {}
    billing = {part.name: part.billing for part in partitions}
    for node in nodes:
        for partition in node.partitions:
            gpu, gpus = _gpus(node.gres)
            if gpus and billing.get(partition):
                kind = (partition, gpu, gpus, node.cpus, node.mem_mib)
                counts[kind] = counts.get(kind, 0) + 1
    if not counts:
        why = "no partition with GPUs has TRESBillingWeights: give --nodes a file with prices"
        raise InputError("scontrol show partition", why)
    return tuple(
        NodeType(
            name=f"{partition}:{gpu or 'gpu'}:{gpus}" if _many(counts, partition) else partition,
            gpu=gpu,
            gpus=gpus,
            cores=cpus,
            mem_bytes=float(mem_mib * MIB),
            price_per_hour=billed(billing[partition], cpus, mem_mib, gpu, gpus, max_tres=max_tres),
            most_nodes=count,
        )
        for (partition, gpu, gpus, cpus, mem_mib), count in counts.items()
    )


def billed(
    weights: str, cpus: int, mem_mib: int, gpu: str, gpus: int, *, max_tres: bool = False
) -> float:
    """Billing of one node. Raises InputError where the weights are none."""
    parts = {"cpu": 0.0, "mem": 0.0, "gres/gpu": 0.0}
    try:
        by_name = {name.lower(): text for name, text in parse_tres(weights).items()}
        typed = by_name.get(f"gres/gpu:{gpu}".lower())
        for name, text in by_name.items():
            if name == "cpu":
                parts[name] = _weight(text)[0] * cpus
            elif name == "mem":
                weight, unit = _weight(text)
                parts[name] = weight * mem_mib * MIB / power_of_1024(unit or "M")
            elif name == "gres/gpu" and typed is None:
                parts[name] = _weight(text)[0] * gpus
        if typed is not None:
            parts["gres/gpu"] = _weight(typed)[0] * gpus
    except ValueError as error:
        raise InputError("TRESBillingWeights", f"{weights!r}: {error}") from None
    return max(parts.values()) if max_tres else sum(parts.values())


def _weight(text: str) -> tuple[float, str]:
    match = _WEIGHT.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a weight such as 1.0 or 0.25G")
    return float(match[1]), match[2]


def _gpus(gres: Mapping[str, int]) -> tuple[str, int]:
    """Type and count of a node's GPUs; no type where it has several."""
    types = [name.partition(":")[2] for name in gres if name.startswith("gpu:")]
    return (types[0] if len(types) == 1 else ""), gres.get("gpu", 0)


def _many(kinds: Iterable[tuple[str, str, int, int, int]], partition: str) -> bool:
    return sum(kind[0] == partition for kind in kinds) > 1
