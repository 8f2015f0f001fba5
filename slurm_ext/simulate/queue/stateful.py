"""A policy that remembers: an object that hears of every job and gives keys from what it knows.

What such an object has:

    keys(jobs)             one number for each of some waiting jobs (WaitingJobs), lowest first
    on_begin(cluster, users)  the replay begins: a Cluster, and the trace's (account, user) pairs.
                           This and the next three are optional
    on_submit(job, now_s)  a job was submitted; a Job
    on_start(job, now_s)   it started
    on_end(job, now_s)     it ended
    every_s                how old keys may become, seconds; without it a job keeps its first key

Keys are asked for when a job is submitted, and of all who wait where something happens and the
last keys are older than `every_s`, as Slurm's PriorityCalcPeriod does.
"""

from collections.abc import Callable
from math import inf
from typing import Any

from slurm_ext.simulate.queue.cluster import Cluster
from slurm_ext.simulate.queue.waiting_jobs import Portraits
from slurm_ext.simulate.trace.columns import Column

HOOKS = ("on_submit", "on_start", "on_end")
BEGIN = "on_begin"


def _nothing(_job: Any, _now_s: float) -> None:
    """Stand for a hook that a policy does not have."""


class Stateful:
    """One replay's policy: hears what becomes of jobs and gives their keys, by number."""

    def __init__(self, policy: Any, portraits: Portraits, cluster: Cluster) -> None:
        if hasattr(policy, BEGIN):
            getattr(policy, BEGIN)(cluster, portraits.users)
        self.every_s = float(getattr(policy, "every_s", inf))
        self._portraits, self._keys = portraits, policy.keys
        hooks: list[Callable[[Any, float], None]]
        hooks = [getattr(policy, name, _nothing) for name in HOOKS]
        self._submitted, self._started, self._ended = hooks

    def keys(self, numbers: Column, now_s: float) -> Column:
        """Keys of waiting jobs at a time."""
        keys: Column = self._keys(self._portraits.some(numbers, now_s))
        return keys

    def submitted(self, job: int, now_s: float) -> None:
        """Tell of a submission."""
        self._submitted(self._portraits.one(job), now_s)

    def started(self, job: int, now_s: float) -> None:
        """Tell of a start."""
        self._started(self._portraits.one(job), now_s)

    def ended(self, job: int, now_s: float) -> None:
        """Tell of an end."""
        self._ended(self._portraits.one(job), now_s)
