"""Rules that elastic scaling is compared with: fixed sizes, as the published ones.

Tiresias (Gu et al., NSDI '19) as in the Pollux artifact: two queues by GPU time had, 16 GPU-hours
apart, each first come first served; whoever fits runs on its tuned size and batch, the emptiest
nodes first.
"""

from collections import Counter
from collections.abc import Sequence
from math import ceil

from contrib.bench.elastic.replay import Batch, Job
from contrib.bench.elastic.tables import Application

FIRST_QUEUE_S = 16 * 3600.0  # GPU-seconds


def split(job: Job, batch: int) -> Batch:
    """A global batch over the GPUs that the job has."""
    return split_over(job.application, job.gpus, batch)


def split_over(app: Application, gpus: int, batch: int) -> Batch:
    """A global batch over GPUs, accumulated where it is too much for one."""
    least, most = app.local
    each = ceil(batch / gpus - 1e-8)
    parts = max(1, ceil(each / most - 1e-8))
    if gpus == 1 and batch > app.batches[0]:
        parts = max(2, parts)  # gradients of one GPU say something only in two parts
    local = ceil(each / parts - 1e-8)
    return max(least, min(local, app.batches[-1] // (gpus * parts))), parts - 1


class Tiresias:
    """Least attained service, on sizes as asked; the batch as tuned, or the untuned initial one."""

    def __init__(self, *, tuned: bool = True, nodes: int = 16, per_node: int = 4) -> None:
        self.tuned, self.nodes, self.per_node = tuned, nodes, per_node
        self.queues: tuple[list[str], list[str]] = ([], [])

    def place(self, now_s: float, jobs: Sequence[Job]) -> dict[str, dict[int, int]]:
        """Who runs keeps its place."""
        del now_s
        by = {job.name: job for job in jobs}
        self._queue(by)
        left, runs = self.nodes * self.per_node, []
        for name in (*self.queues[0], *self.queues[1]):
            if by[name].asked.gpus <= left:
                left -= by[name].asked.gpus
                runs.append(by[name])
        return emptiest_first(runs, self.nodes, self.per_node)

    def _queue(self, by: dict[str, Job]) -> None:
        first, second = ([name for name in queue if name in by] for queue in self.queues)
        first += [name for name in by if name not in {*first, *second}]
        second += [name for name in first if by[name].service_s >= FIRST_QUEUE_S]
        self.queues = ([name for name in first if name not in second], second)

    def batch(self, job: Job) -> Batch:
        """As asked."""
        return split(job, job.asked.batch if self.tuned else job.application.batches[0])


def emptiest_first(runs: Sequence[Job], nodes: int, per_node: int) -> dict[str, dict[int, int]]:
    """Those that run stay; others take the emptiest nodes."""
    free = Counter(dict.fromkeys(range(nodes), per_node))
    placed = {job.name: dict(job.nodes) for job in runs if job.nodes}
    for there in placed.values():
        free.subtract(there)
    for job in runs:
        if job.nodes:
            continue
        lacks, there = job.asked.gpus, dict[int, int]()
        while lacks > 0:
            node, count = free.most_common(1)[0]
            there[node] = min(count, lacks)
            free[node] -= there[node]
            lacks -= there[node]
        placed[job.name] = there
    return placed
