"""Policies that learn from running jobs how many GPUs are worth it: ours, and a genetic search.

They see a job's limits, how many epochs it was declared to be and how far it is, and what this run
has measured: seconds computing and synchronising at each config so far, the gradient's square and
variance now. No table, no other job. A job that has measured nothing gets one GPU, first of all.

Ours is what `dlqueue control --elastic` does live: policy/elastic's utilities, divided by the
dynamic programme, then placed. Genetic is the search of ONES (Bian et al., SC '21) over placements,
from the placement that is, with the same utilities and the same admission.
"""

from collections.abc import Sequence

import numpy as np

from slurm_ext.model.scaling.goodput import BatchLimits, BestBatches, GradientNoise
from slurm_ext.model.scaling.goodput_speed import StepMeasurement
from slurm_ext.policy.elastic import genetic_search, placement
from slurm_ext.policy.elastic.gpu_division import (
    DivisionTerms,
    Utility,
    admitted,
    allot,
    sizes_of,
    weights_of,
)
from slurm_ext.policy.elastic.utility import ElasticJob, GoodputReport, best_batches, utility_of
from slurm_ext.simulate.elastic.fixed_sizes import split_batch
from slurm_ext.simulate.elastic.replay import Batch, ElasticCluster, Placements, ReplayedJob

MOST_GPUS = 64  # of one job, as published
GENERATIONS = 20  # of one round's search


class GoodputPolicy:
    """Ours: the best division of GPUs by what the jobs have measured."""

    def __init__(self, cluster: ElasticCluster, terms: DivisionTerms | None = None) -> None:
        self.cluster, self.terms = cluster, terms or DivisionTerms()
        self.sizes = sizes_of(cluster.gpus, cluster.per_node, MOST_GPUS)

    def place(self, now_s: float, jobs: Sequence[ReplayedJob]) -> Placements:
        """The division, placed so that few jobs move."""
        del now_s
        utilities = [self.utility(job) for job in jobs]
        sizes = allot(utilities, self.sizes, self.cluster.gpus, self.terms)
        nodes = {job.name: job.nodes for job in jobs if job.nodes}
        return placement.place(sizes, nodes, self.cluster.nodes, self.cluster.per_node)

    def utility(self, job: ReplayedJob) -> Utility:
        """Utility of each size, as the live loop counts it."""
        elastic = ElasticJob(
            name=job.name,
            least=1,
            most=MOST_GPUS,
            held=job.gpus,
            arrival_s=job.submitted.arrival_s,
            report=self.report(job),
        )
        return utility_of(elastic, self.sizes, self.cluster.per_node)

    def report(self, job: ReplayedJob) -> GoodputReport | None:
        """The job's report of itself; None: it has measured nothing."""
        if not job.measured or job.gradients is None:
            return None
        square, variance = job.gradients
        return GoodputReport(
            left=float(job.application.ends[-1] - job.progress),
            limits=limits_of(job),
            noise=GradientNoise(square=square, variance=variance),
            steps=steps_of(job),
        )

    def best(self, job: ReplayedJob) -> BestBatches | None:
        """The best batch at each size; None: nothing is measured."""
        report = self.report(job)
        if report is None:
            return None
        return best_batches(report, self.sizes, self.cluster.per_node)

    def batch(self, job: ReplayedJob) -> Batch:
        """The best batch at its size; the initial one where nothing is measured."""
        best = self.best(job)
        if best is None:
            return split_batch(job.application, job.gpus, job.application.batches[0])
        column = self.sizes.index(job.gpus)
        return int(best.local[column]), int(best.accumulated[column])


def steps_of(job: ReplayedJob) -> tuple[StepMeasurement, ...]:
    """Measurements of the job, by config."""
    return tuple(
        StepMeasurement(
            gpus=gpus, nodes=nodes, most=most, local=local, compute_s=compute_s, sync_s=sync_s
        )
        for (gpus, nodes, most, local), (compute_s, sync_s) in job.measured.items()
    )


def limits_of(job: ReplayedJob) -> BatchLimits:
    """Batches that the owner allows."""
    application = job.application
    return BatchLimits(
        initial=application.batches[0],
        most=application.batches[-1],
        local_least=application.local[0],
        local_most=application.local[1],
    )


class GeneticPolicy(GoodputPolicy):
    """A genetic search over placements; a job may have any number of GPUs."""

    def __init__(self, cluster: ElasticCluster, seed: int = 0) -> None:
        super().__init__(cluster)
        self.sizes = tuple(range(1, min(MOST_GPUS, cluster.gpus) + 1))
        self.rng = np.random.default_rng(seed)

    def place(self, now_s: float, jobs: Sequence[ReplayedJob]) -> Placements:
        """The best placement that the search finds."""
        del now_s
        by_name = {job.name: job for job in jobs}
        utilities = admitted(
            [self.utility(job) for job in jobs], self.sizes, self.cluster.gpus, self.terms
        )
        if not utilities:
            return {}
        current = [dict(by_name[utility.name].nodes) for utility in utilities]
        start = genetic_search.matrix(_started(current, self.cluster), self.cluster.nodes)
        best, _ = genetic_search.search(
            self._problem(utilities, current),
            [start],
            self.rng,
            lambda generation, _: generation >= GENERATIONS,
        )
        return {
            utility.name: {int(node): int(row[node]) for node in np.flatnonzero(row)}
            for utility, row in zip(utilities, best, strict=True)
            if row.any()
        }

    def _problem(
        self, utilities: Sequence[Utility], current: Sequence[dict[int, int]]
    ) -> genetic_search.Problem:
        """Speedups on as few nodes as a size needs: on more, nothing is promised."""
        cluster, sizes = self.cluster, np.array(self.sizes)
        speedup = np.zeros((len(utilities), cluster.gpus + 1, cluster.nodes + 1))
        for row, utility in enumerate(utilities):
            base = utility.goodput[utility.goodput > 0][0]
            speedup[row, sizes, -(-sizes // cluster.per_node)] = utility.goodput / base
        return genetic_search.Problem(
            speedup=speedup,
            nodes=cluster.nodes,
            per_node=cluster.per_node,
            interference=cluster.interference,
            weights=weights_of(utilities, self.sizes, self.terms),
            current=genetic_search.matrix(current, cluster.nodes),
            kept=np.array([self._kept(utility) for utility in utilities]),
        )

    def _kept(self, utility: Utility) -> float:
        """Share of a job's speed that is left where it restarts, over the time to its next one."""
        if not utility.held:
            return 1.0
        left_s = utility.left / max(utility.goodput[utility.held - 1], 1e-300)
        lasts_s = float(np.clip(left_s, self.terms.restart_s, self.terms.lasts_s))
        return lasts_s / (lasts_s + self.terms.restart_s)


def _started(current: Sequence[dict[int, int]], cluster: ElasticCluster) -> list[dict[int, int]]:
    """The placement that is, with one GPU for each job that waits while any is free."""
    free = [cluster.per_node] * cluster.nodes
    for nodes in current:
        for node, count in nodes.items():
            free[node] -= count
    placements = list(current)
    for row in (row for row, nodes in enumerate(current) if not nodes):
        node = max(range(cluster.nodes), key=lambda at: free[at])
        if free[node]:
            free[node] -= 1
            placements[row] = {node: 1}
    return placements
