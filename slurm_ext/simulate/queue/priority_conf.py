"""Priorities of a slurm.conf: the weights of priority/multifactor, and its partitions.

Units: seconds; weights as written. What has a weight and is not replayed is in `left_out`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from slurm_ext.core.errors import InputError
from slurm_ext.simulate.planning.slurm_conf import Pairs, global_values, number, read_lines, seconds

DAY_S = 86400.0
WEIGHTS = {"age": "age", "fairshare": "fairshare", "jobsize": "job_size", "partition": "partition"}
QOS_WEIGHT = "PriorityWeightQOS"  # replayed where the QOS are known
NOT_REPLAYED = ("PriorityWeightAssoc", QOS_WEIGHT)
GPU_TRES = "gres/gpu"


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """PriorityTier goes before any priority; PriorityJobFactor is a part of it."""

    tier: float = 1.0
    factor: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PriorityConf:
    """Weights by the names of WEIGHTS, and a GPU's; how usage decays; how often all is computed."""

    weights: Mapping[str, float] = field(default_factory=dict)
    gpu_weight: float = 0.0
    max_age_s: float = 7 * DAY_S
    half_life_s: float = 7 * DAY_S
    period_s: float = 300.0
    favours_small: bool = False
    partitions: Mapping[str, Partition] = field(default_factory=dict)
    qos: Mapping[str, float] = field(default_factory=dict)  # priorities over the highest
    usage_factors: Mapping[str, float] = field(default_factory=dict)  # of QOS, 1 where not there
    left_out: tuple[str, ...] = ()


def read_priorities(path: Path, qos: Mapping[str, float] | None = None) -> PriorityConf:
    """The priorities of a slurm.conf. Raises InputError, naming the file and the key.

    `qos`: priorities of QOS, each over the highest; without, they are left out.
    """
    partitions = {
        pairs["partitionname"]: Partition(
            tier=number(pairs, "prioritytier", 1.0, source),
            factor=number(pairs, "priorityjobfactor", 1.0, source),
        )
        for source, pairs in read_lines(path)
        if "partitionname" in pairs
    }
    conf = _conf(global_values(path), partitions, path)
    if qos is None:
        return conf
    weight = number(global_values(path), "priorityweightqos", 0.0, path)
    left_out = tuple(name for name in conf.left_out if name != QOS_WEIGHT)
    return replace(conf, weights={**conf.weights, "qos": weight}, qos=qos, left_out=left_out)


def _conf(values: Pairs, partitions: Mapping[str, Partition], path: Path) -> PriorityConf:
    kind = values.get("prioritytype", "priority/multifactor")
    if kind.lower() != "priority/multifactor":
        raise InputError(str(path), f"PriorityType is {kind}: multifactor replays no other")
    tres, others = _tres(values.get("priorityweighttres", ""), path)
    ignored = [name for name in NOT_REPLAYED if number(values, name.lower(), 0.0, path)]
    return PriorityConf(
        weights={
            name: number(values, f"priorityweight{key}", 0.0, path) for key, name in WEIGHTS.items()
        },
        gpu_weight=tres,
        max_age_s=seconds(values, "prioritymaxage", 7 * DAY_S, path),
        half_life_s=seconds(values, "prioritydecayhalflife", 7 * DAY_S, path),
        period_s=seconds(values, "prioritycalcperiod", 300.0, path) or 300.0,
        favours_small=values.get("priorityfavorsmall", "no").lower() == "yes",
        partitions=dict(partitions),
        left_out=(*ignored, *(f"PriorityWeightTRES {name}" for name in others)),
    )


def _tres(text: str, path: Path) -> tuple[float, list[str]]:
    """The weight of a GPU, and the names of other resources that have one."""
    weights = dict(part.split("=", 1) for part in text.lower().split(",") if "=" in part)
    values = {name: number(weights, name, 0.0, path) for name in weights}
    return values.get(GPU_TRES, 0.0), [name for name in values if name != GPU_TRES and values[name]]
