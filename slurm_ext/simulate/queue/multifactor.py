"""Slurm's own order of a queue: priority/multifactor, as a stateful policy of a replay.

A job's priority is the weighted sum of its age, size, partition, QOS and its user's fair share;
a partition's PriorityTier goes before. Fair share is Fair Tree's with equal shares: accounts by
their usage, in each its users by theirs; usage is GPU-seconds that halve every
PriorityDecayHalfLife. Everybody in the trace has an association from its start on.
Slurm itself ignores the weights of age and fair share where it has no slurmdbd.
Source: Slurm's priority_multifactor and fair_tree pages; formulas of sizes: its plugin.
"""

from collections.abc import Collection, Mapping
from itertools import groupby

import numpy as np

from slurm_ext.policy.queue.order import Floats
from slurm_ext.simulate.limits.usage import Usage
from slurm_ext.simulate.queue.cluster import Cluster
from slurm_ext.simulate.queue.priority_conf import Partition, PriorityConf
from slurm_ext.simulate.queue.waiting_jobs import Job, WaitingJobs

TIER = 1e12  # above any priority: Slurm's are 32 bits
User = tuple[str, str]  # account, name


class Multifactor:
    """The order of one replay."""

    def __init__(self, conf: PriorityConf) -> None:
        self._conf, self.every_s = conf, conf.period_s
        self._usage: dict[User, Usage] = {}
        self._nodes, self._gpus, self._per_node = 1, 1, 1

    def on_begin(self, cluster: Cluster, users: Collection[User]) -> None:
        """Take the cluster's size, of which a job's size is a share, and who has an account."""
        self._nodes, self._gpus = sum(cluster.pools()), cluster.gpus
        self._per_node = cluster.gpus_per_node
        self._usage = {who: Usage(self._conf.half_life_s) for who in users}

    def on_start(self, job: Job, now_s: float) -> None:
        """Count the job's GPUs as in use."""
        self._usage[job.account, job.user].hold(self._counted(job), now_s)

    def on_end(self, job: Job, now_s: float) -> None:
        """Count them as given back."""
        self._usage[job.account, job.user].hold(-self._counted(job), now_s)

    def _counted(self, job: Job) -> float:
        """Count the job's GPUs as the UsageFactor of its QOS has them."""
        return job.gpus * self._conf.usage_factors.get(job.qos, 1.0)

    def keys(self, jobs: WaitingJobs) -> Floats:
        """The priorities, the highest first."""
        weights, conf = self._conf.weights, self._conf
        age = np.minimum(1.0, (jobs.now_s - jobs.submit_s) / max(conf.max_age_s, 1.0))
        share = fair_shares({who: usage.at(jobs.now_s) for who, usage in self._usage.items()})
        pairs = zip(jobs.account, jobs.user, strict=True)
        total = weights["age"] * age + weights["job_size"] * self._sizes(jobs)
        total += weights["fairshare"] * np.array([share[pair] for pair in pairs])
        total += conf.gpu_weight * jobs.gpus / self._gpus
        partitions = [conf.partitions.get(name, Partition()) for name in jobs.vc]
        most = max((partition.factor for partition in conf.partitions.values()), default=1.0) or 1.0
        total += weights["partition"] * np.array(
            [partition.factor / most for partition in partitions]
        )
        if conf.qos:
            total += weights["qos"] * np.array([conf.qos.get(name, 0.0) for name in jobs.qos])
        negative: Floats = -np.floor(total) - TIER * np.array(
            [partition.tier for partition in partitions]
        )
        return negative

    def _sizes(self, jobs: WaitingJobs) -> Floats:
        """Shares of the nodes and of the GPUs; of what is left where small jobs are favoured."""
        nodes = np.ceil(jobs.gpus / self._per_node)
        share: Floats = (nodes / self._nodes + jobs.gpus / self._gpus) / 2
        return 1 - share if self._conf.favours_small else share


def fair_shares(usage: Mapping[User, float]) -> dict[User, float]:
    """Fair-share factor of each user, by usage: 1 for the one with the least.

    Accounts of one usage count as one, as Fair Tree merges them; users of one usage are equal.
    """
    accounts: dict[str, float] = {}
    for (account, _), had in usage.items():
        accounts[account] = accounts.get(account, 0.0) + had
    place = {who: (accounts[who[0]], had) for who, had in usage.items()}
    shares: dict[User, float] = {}
    for _, equals in groupby(sorted(usage, key=place.__getitem__), key=place.__getitem__):
        shares |= dict.fromkeys(equals, (len(usage) - len(shares)) / len(usage))
    return shares
