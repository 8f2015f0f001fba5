"""Elastic rules on the product's policies: ours with learned models, and what it is compared with.

A learned rule sees what slurm_ext/simulate/elastic/learned_sizes.py says: no table, no other job.
Fixed batches (as tuned by the workload, or the untuned initial one) and throughput (a sample is
worth one at any batch) run on the same speed model and the same division. Saxena et al.'s objective
is the sum of speedups. An oracle reads the tables: the bound of what learning can give.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from contrib.bench.common.arrays import Array
from slurm_ext.model.scaling import goodput
from slurm_ext.model.scaling.goodput_speed import fit
from slurm_ext.policy.elastic.gpu_division import DivisionTerms, Utility
from slurm_ext.policy.elastic.utility import GROWS, GoodputReport
from slurm_ext.simulate.elastic.fixed_sizes import split_batch
from slurm_ext.simulate.elastic.learned_sizes import (
    MOST_GPUS,
    GoodputPolicy,
    limits_of,
    steps_of,
)
from slurm_ext.simulate.elastic.replay import Batch, ElasticCluster, ReplayedJob


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """Which rule it is."""

    objective: str = "goodput"  # goodput | throughput | tuned batch | initial batch
    oracle: bool = False
    declared: bool = True  # whether a job's epochs are known; else it lasts as long again as it has
    terms: DivisionTerms = field(default_factory=DivisionTerms)


def policy_of(kind: Kind, cluster: ElasticCluster) -> GoodputPolicy:
    """The policy of a kind."""
    if kind.oracle or kind.objective.endswith("batch"):
        return Restricted(kind, cluster)
    return Learned(kind, cluster)


class Learned(GoodputPolicy):
    """The product's policy, with less information if the rule says so."""

    def __init__(self, kind: Kind, cluster: ElasticCluster) -> None:
        super().__init__(cluster, kind.terms)
        self.kind = kind

    def report(self, job: ReplayedJob) -> GoodputReport | None:
        """The job's report; its length and its gradients only where the kind knows them."""
        report = super().report(job)
        if report is not None and not self.kind.declared:
            report = replace(report, left=float(job.progress))
        if report is not None and self.kind.objective == "throughput":
            report = replace(report, noise=goodput.GradientNoise(square=0.0, variance=1.0))
        return report


class Restricted(Learned):
    """A fixed batch, or the tables themselves in place of measurements."""

    def __init__(self, kind: Kind, cluster: ElasticCluster) -> None:
        super().__init__(kind, cluster)
        self.times: dict[str, tuple[int, goodput.IterationTimes]] = {}

    def utility(self, job: ReplayedJob) -> Utility:
        """Utility of each size of the job, as far as it may grow."""
        grown = GROWS * max((gpus for gpus, *_ in job.measured), default=0)
        most = MOST_GPUS if self.kind.oracle else max(1, grown)
        best = self.best(job)
        values = np.eye(1, len(self.sizes))[0] if best is None else best.goodput
        left = float(job.application.ends[-1] - job.progress) if best is not None else 0.0
        return Utility(
            name=job.name,
            goodput=np.where(np.array(self.sizes) <= most, values, 0.0),
            held=job.gpus,
            left=left,
            arrival_s=job.submitted.arrival_s,
        )

    def best(self, job: ReplayedJob) -> goodput.BestBatches | None:
        """The best batch at each size; None: nothing is measured."""
        if not job.measured and not self.kind.oracle:
            return None
        first = job.application.gradients(job.application.batches[0], 0)
        square, variance = job.gradients or first
        return self._times(job).best(goodput.GradientNoise(square=square, variance=variance))

    def batch(self, job: ReplayedJob) -> Batch:
        """The fixed batch, if it is one."""
        batch = self._fixed(job)
        return (
            super().batch(job) if batch is None else split_batch(job.application, job.gpus, batch)
        )

    def _times(self, job: ReplayedJob) -> goodput.IterationTimes:
        """Fitted again where a new config was measured."""
        count = 0 if self.kind.oracle else len(job.measured)
        if job.name not in self.times or self.times[job.name][0] != count:
            speed = TrueSpeed(job) if self.kind.oracle else fit(steps_of(job))
            limits, batch = limits_of(job), self._fixed(job)
            configs = goodput.configs(limits, self.sizes, self.cluster.per_node)
            if batch is not None:
                configs = self._only(job, batch)
            times = goodput.iteration_times(speed, limits, configs, len(self.sizes))
            self.times[job.name] = (count, times)
        return self.times[job.name][1]

    def _fixed(self, job: ReplayedJob) -> int | None:
        batches = {"tuned batch": job.submitted.batch, "initial batch": job.application.batches[0]}
        return batches.get(self.kind.objective)

    def _only(self, job: ReplayedJob, batch: int) -> goodput.Configs:
        """One config a size, where each GPU has its least batch."""
        least = job.application.local[0]
        fits = [gpus for gpus in self.sizes if gpus == 1 or gpus * least <= batch]
        splits = [(gpus, *split_batch(job.application, gpus, batch)) for gpus in fits]
        rows = [(gpus, local, accumulated + 1) for gpus, local, accumulated in splits]
        return goodput.config_table(rows, self.sizes, self.cluster.per_node)


class TrueSpeed:
    """The tables themselves: only for rules that are named oracles."""

    def __init__(self, job: ReplayedJob) -> None:
        self.application = job.application

    def steps(self, gpus: Array, nodes: Array, most: Array, local: Array) -> tuple[Array, Array]:
        """Seconds of computing and of synchronising."""
        del gpus
        places = zip(nodes, most, local, strict=True)
        rows = [self.application.step((int(g),) * int(n), int(m)) for n, g, m in places]
        step, sync = np.array(rows).T
        return step - sync, sync


ALL_ALIKE = DivisionTerms(favour=0.0)
ALL_IN = DivisionTerms(favour=0.0, gpus_a_job=1.0)
ADDS_UP = DivisionTerms(adds_up=True, gpus_a_job=0.0)
KINDS: Mapping[str, Kind] = {
    "ours": Kind(),
    "ours, length unknown": Kind(declared=False, terms=ALL_IN),
    "ours, jobs alike": Kind(terms=ALL_ALIKE),
    "tuned batch, sum": Kind(objective="tuned batch", terms=ADDS_UP),
    "tuned batch, short first": Kind(objective="tuned batch"),
    "throughput, sum": Kind(objective="throughput", terms=ADDS_UP),
    "initial batch, sum": Kind(objective="initial batch", terms=ADDS_UP),
    "oracle": Kind(oracle=True),
}
