"""Elastic policies by name.

| policy   | what it does                                                                        |
|----------|-------------------------------------------------------------------------------------|
| ours     | divides GPUs by measured goodput, as `dlqueue control --elastic` does               |
| genetic  | searches placements with the same goodput, as ONES (SC '21)                         |
| static   | first come, first served, GPUs and batch as submitted                               |
| tiresias | least attained service (NSDI '19), GPUs and batch as submitted                      |
"""

from collections.abc import Callable, Mapping

from slurm_ext.core.errors import UsageError
from slurm_ext.simulate.elastic.fixed_sizes import Static, Tiresias
from slurm_ext.simulate.elastic.learned_sizes import GeneticPolicy, GoodputPolicy
from slurm_ext.simulate.elastic.replay import ElasticCluster, ElasticPolicy

POLICIES: Mapping[str, Callable[[ElasticCluster, int], ElasticPolicy]] = {
    "ours": lambda cluster, _seed: GoodputPolicy(cluster),
    "genetic": GeneticPolicy,
    "static": lambda cluster, _seed: Static(cluster),
    "tiresias": lambda cluster, _seed: Tiresias(cluster),
}


def policies_of(text: str) -> list[str]:
    """Names of a comma-separated list, each once. Raises UsageError."""
    names = [name.strip() for name in text.split(",")]
    unknown = [name for name in names if name not in POLICIES]
    if unknown:
        raise UsageError(f"--elastic {unknown[0]!r}: expected {', '.join(POLICIES)}")
    if len(set(names)) < len(names):
        raise UsageError(f"--elastic {text!r} names one policy twice")
    return names
