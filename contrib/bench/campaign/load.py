"""The load on a cluster: users who submit at once, and jobs that run meanwhile."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from random import Random

from contrib.bench.campaign.cluster import Cluster
from contrib.bench.campaign.endings import Batch
from contrib.bench.campaign.shapes import Shape, shapes_of
from contrib.bench.campaign.submissions import Crowd, Submitted
from slurm_ext.core.errors import DlqueueError

GROUP = 500  # submissions, then jobs are looked at, and those that were are cancelled


class Load:
    """Everything that was submitted, and the shape in which slurmctld had each job first."""

    def __init__(self, cluster: Cluster, seed: str, say: Callable[[str], None]) -> None:
        self._cluster, self._random, self._say = cluster, Random(seed), say
        self.batch, self.submitted = Batch(cluster), list[Submitted]()
        self.seen: dict[int, Shape] = {}

    def add(self, submissions: int, jobs: int, *, longest_s: float, shells: int = 1) -> None:
        """Submit so many held jobs, three users at once from `shells` each, and so many that run.

        Jobs of a group that slurmctld was seen to have are cancelled before the next group:
        a queue holds only so many. The last group stays.
        """
        began_s, done = time.monotonic(), 0
        for size in groups(submissions):
            crowd = Crowd(self._cluster, size, len(self.submitted), shells).start()
            if done == 0:
                self.batch.add(jobs, self._random, longest_s)
            group = crowd.join(self.batch.tend)
            self.submitted += group
            self.look()
            done += size
            if done < submissions:
                rate = done / (time.monotonic() - began_s)
                self._say(f"{done:,} of {submissions:,} submitted, {rate:.0f} a second")
                self._cancel_seen(group)

    def look(self) -> None:
        """Keep the shape of each job that was not seen before."""
        with suppress(DlqueueError, ValueError):  # slurmctld may be what is broken
            found = shapes_of(self._cluster.slurm)
            self.seen |= {job: shape for job, shape in found.items() if job not in self.seen}

    def _cancel_seen(self, submitted: Sequence[Submitted]) -> None:
        job_ids = [str(one.job_id) for one in submitted if one.job_id in self.seen]
        if job_ids:
            with suppress(DlqueueError):
                self._cluster.slurm.run(["scancel", *job_ids], check=False)


def groups(submissions: int) -> Iterator[int]:
    """Sizes of the groups in which so many are submitted; one of none for none."""
    yield min(GROUP, submissions)
    for done in range(GROUP, submissions, GROUP):
        yield min(GROUP, submissions - done)
