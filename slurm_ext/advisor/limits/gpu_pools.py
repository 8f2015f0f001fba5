"""GPUs of a partition's nodes for jobs that share a GPU, as Slurm reports them. Pure.

A job that asks for a part of a GPU must be able to start wherever it could have started with a
whole one, so that every node with GPUs has to offer the same number of parts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from slurm_ext.core.gpu_request import SHARED_KINDS
from slurm_ext.slurm import NodeInfo, PartitionInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuPool:
    """The nodes with GPUs that a partition, or several together, can send a job to."""

    nodes: frozenset[str] = frozenset()
    gpu_types: frozenset[str] = frozenset()  # a100, ...; empty text: GPUs without a type
    shares: Mapping[str, int] = field(default_factory=dict)  # of one GPU, by kind
    refused: Mapping[str, str] = field(default_factory=dict)  # kind to why no job may have one
    features: frozenset[str] = frozenset()  # that some node of any sort has


def pool_of(
    partition: PartitionInfo, nodes: Sequence[NodeInfo], config: Mapping[str, str]
) -> GpuPool:
    """The partition's own; `nodes` are its."""
    mine = [node for node in nodes if node.gres.get("gpu")]
    refused = {kind: _refused(kind, partition, mine, config) for kind in SHARED_KINDS}
    return GpuPool(
        nodes=frozenset(node.name for node in mine),
        gpu_types=frozenset(kind for node in mine for kind in _types(node)),
        shares={
            kind: mine[0].gres[kind] // mine[0].gres["gpu"]
            for kind in SHARED_KINDS
            if not refused[kind]
        },
        refused={kind: why for kind, why in refused.items() if why},
        features=frozenset(feature for node in nodes for feature in node.features),
    )


def joined(pools: Sequence[GpuPool]) -> GpuPool:
    """Return the pool that a job of all these partitions can count on."""
    first, *others = pools
    if not others:
        return first
    shares = {
        kind: count
        for kind, count in first.shares.items()
        if all(pool.shares.get(kind) == count for pool in others)
    }
    refused = {kind: why for pool in pools for kind, why in pool.refused.items()}
    for kind in SHARED_KINDS:
        if kind not in shares:
            refused.setdefault(kind, "its partitions cut their GPUs differently")
    return GpuPool(
        nodes=frozenset().union(*(pool.nodes for pool in pools)),
        gpu_types=frozenset().union(*(pool.gpu_types for pool in pools)),
        shares=shares,
        refused=refused,
        features=first.features.intersection(*(pool.features for pool in others)),
    )


def _refused(
    kind: str, partition: PartitionInfo, mine: Sequence[NodeInfo], config: Mapping[str, str]
) -> str:
    """Return the reason against parts of a GPU in this partition; empty: there is none."""
    if not mine:
        return "its partition has no GPUs"
    if set(SHARED_KINDS) <= set(config.get("GresTypes", "").split(",")):
        return "GresTypes has both mps and shard, with which Slurm names no GPU to the job"
    ratios = {node.gres.get(kind, 0) / node.gres["gpu"] for node in mine}
    if len(ratios) > 1 or not ratios.pop() >= 1:
        return f"not every GPU of its partition has the same number of {kind}"
    if "gres/gpu" in partition.billing.lower() and f"gres/{kind}" not in partition.billing.lower():
        return f"TRESBillingWeights counts GPUs and not their {kind}"
    defaults = partition.job_defaults or config.get("JobDefaults", "")
    if "pergpu" in defaults.lower():
        return "JobDefaults gives CPUs or memory by the GPU"
    return ""


def _types(node: NodeInfo) -> list[str]:
    typed = {key[4:]: count for key, count in node.gres.items() if key.startswith("gpu:")}
    untyped = sum(typed.values()) < node.gres["gpu"]
    return [*typed, *([""] if untyped else [])]
