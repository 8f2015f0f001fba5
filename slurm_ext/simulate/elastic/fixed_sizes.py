"""Policies that elastic scaling is compared with: every job runs on the GPUs it asked for.

Static: first come, first served, nobody is interrupted, and a later job starts where it fits.
Tiresias (Gu et al., NSDI '19) as in the Pollux artifact: two queues by GPU time had, 16 GPU-hours
apart, each first come first served; a job that fits runs on its tuned size and batch, the emptiest
nodes first.
"""

from collections import Counter
from collections.abc import Sequence
from math import ceil

from slurm_ext.simulate.elastic.applications import Application
from slurm_ext.simulate.elastic.replay import Batch, ElasticCluster, Placements, ReplayedJob

FIRST_QUEUE_S = 16 * 3600.0  # GPU-seconds


class Static:
    """First come, first served, on sizes as asked."""

    def __init__(self, cluster: ElasticCluster, *, tuned: bool = True) -> None:
        """`tuned`: the workload's batch; else the initial one of the application."""
        self.cluster, self.tuned = cluster, tuned

    def order(self, jobs: Sequence[ReplayedJob]) -> Sequence[ReplayedJob]:
        """Jobs that run keep their GPUs; the others come by arrival."""
        return sorted(jobs, key=lambda job: not job.nodes)

    def place(self, now_s: float, jobs: Sequence[ReplayedJob]) -> Placements:
        """As many in this order as fit."""
        del now_s
        left, running = self.cluster.gpus, []
        for job in self.order(jobs):
            if job.submitted.gpus <= left:
                left -= job.submitted.gpus
                running.append(job)
        return emptiest_first(running, self.cluster)

    def batch(self, job: ReplayedJob) -> Batch:
        """The fixed batch over the GPUs that the job has."""
        batch = job.submitted.batch if self.tuned else job.application.batches[0]
        return split_batch(job.application, job.gpus, batch)


class Tiresias(Static):
    """Least attained service, in two queues."""

    def __init__(self, cluster: ElasticCluster, *, tuned: bool = True) -> None:
        super().__init__(cluster, tuned=tuned)
        self.queues: tuple[list[str], list[str]] = ([], [])

    def order(self, jobs: Sequence[ReplayedJob]) -> Sequence[ReplayedJob]:
        """The first queue, then the second, for jobs that have had FIRST_QUEUE_S."""
        by_name = {job.name: job for job in jobs}
        first, second = ([name for name in queue if name in by_name] for queue in self.queues)
        first += [name for name in by_name if name not in {*first, *second}]
        second += [name for name in first if by_name[name].service_s >= FIRST_QUEUE_S]
        self.queues = ([name for name in first if name not in second], second)
        return [by_name[name] for queue in self.queues for name in queue]


def split_batch(application: Application, gpus: int, batch: int) -> Batch:
    """A global batch over GPUs, accumulated where it is too much for one."""
    least, most = application.local
    share = ceil(batch / gpus - 1e-8)
    parts = max(1, ceil(share / most - 1e-8))
    if gpus == 1 and batch > application.batches[0]:
        parts = max(2, parts)  # gradients of one GPU say something only in two parts
    local = ceil(share / parts - 1e-8)
    return max(least, min(local, application.batches[-1] // (gpus * parts))), parts - 1


def emptiest_first(running: Sequence[ReplayedJob], cluster: ElasticCluster) -> Placements:
    """Jobs that run stay where they are; others take the emptiest nodes."""
    free = Counter(dict.fromkeys(range(cluster.nodes), cluster.per_node))
    placements = {job.name: dict(job.nodes) for job in running if job.nodes}
    for nodes in placements.values():
        free.subtract(nodes)
    for job in running:
        if job.nodes:
            continue
        lacks, nodes = job.submitted.gpus, dict[int, int]()
        while lacks > 0:
            node, count = free.most_common(1)[0]
            nodes[node] = min(count, lacks)
            free[node] -= nodes[node]
            lacks -= nodes[node]
        placements[job.name] = nodes
    return placements
