"""Every partition's rules in memory, read from the cluster now and then, asked by submission."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from slurm_ext.advisor.limits.bounds import PartitionRules
from slurm_ext.advisor.limits.gpu_pools import GpuPool, joined
from slurm_ext.core.records import Submission
from slurm_ext.slurm.allowances import Allowances


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterRules:
    """Rules by partition; empty until the cluster was asked."""

    partitions: Mapping[str, PartitionRules] = field(default_factory=dict)
    default: str | None = None
    qos: Mapping[str, str] = field(default_factory=dict)  # of partitions that have one
    minutes: Mapping[str, float | None] = field(default_factory=dict)  # of a job that names none
    allowances: Allowances | None = None  # None: Slurm enforces no limits by account or QOS
    pools: Mapping[str, GpuPool] = field(default_factory=dict)  # by partition
    task_prolog: bool = False  # whether Slurm runs one
    operators: frozenset[str] = frozenset()  # users who may see everybody's jobs
    hides_others: bool = True  # whether PrivateData keeps jobs from other users, as far as is known

    def rules_for(self, job: Submission) -> PartitionRules | None:
        """The narrowest of the job's partitions and accounts; None where one is not known."""
        names = _names(job.partition or self.default)
        every = [self.partitions.get(name) for name in names]
        own = [rules for rules in every if rules is not None]
        if len(own) < len(every):
            return None
        return self._allowed(job, names, _narrowest(own))

    def minutes_of(self, job: Submission) -> float | None:
        """The job's own time limit, else the longest that its partitions give; None: not known."""
        if job.time_limit_minutes:
            return job.time_limit_minutes
        names = _names(job.partition or self.default)
        limits = [most for name in names if (most := self.minutes.get(name)) is not None]
        return max(limits) if len(limits) == len(names) else None

    def pool_for(self, partitions: str | None) -> GpuPool | None:
        """Return the pool of these partitions (a,b; None: the default); None: not known."""
        names = _names(partitions or self.default)
        if not all(name in self.pools for name in names):
            return None
        return joined([self.pools[name] for name in names])

    def _allowed(
        self, job: Submission, names: list[str], rules: PartitionRules
    ) -> PartitionRules | None:
        if self.allowances is None:
            return rules
        allowance = self.allowances.of(job, (self.qos[name] for name in names if name in self.qos))
        return None if allowance is None else replace(rules, allowance=allowance)


def _names(partitions: str | None) -> list[str]:
    """Each partition once, however often a job names it."""
    return list(dict.fromkeys((partitions or "").split(",")))


def _narrowest(rules: list[PartitionRules]) -> PartitionRules:
    if len(rules) == 1:
        return rules[0]
    return PartitionRules(
        cpus_per_node=min(r.cpus_per_node for r in rules),
        mem_per_node_mib=_least(r.mem_per_node_mib for r in rules),
        def_mem_per_cpu_mib=max(r.def_mem_per_cpu_mib or 0 for r in rules) or None,
        max_mem_per_cpu_mib=_least(r.max_mem_per_cpu_mib for r in rules),
        keeps_cores=all(r.keeps_cores for r in rules),
        whole_nodes=any(r.whole_nodes for r in rules),
        cpus_by_gpu=any(r.cpus_by_gpu for r in rules),
        mem_by_gpu=any(r.mem_by_gpu for r in rules),
    )


def _least(values: Iterable[int | None]) -> int | None:
    return min((value for value in values if value), default=None)
