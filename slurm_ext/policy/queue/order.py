"""The order of a queue: rules that give every waiting job a key, lowest first. Pure.

A key is a number that stays as it is while prediction and lead do, so that a queue of any length is
kept in order at O(log n) a job, and the same function orders a replayed queue and a live one.

| rule | key | source |
|---|---|---|
| fifo | time since when it waits | |
| fewest | GPUs asked | baseline of QSSF studies |
| shortest | true duration x GPUs: an oracle, the bound of what estimates can give | |
| qssf | estimated duration x GPUs | QSSF, Hu et al., SC '21 |

A job waits since its submission, or since it became eligible to start (after a dependency, a hold,
or until its begin time): before, nobody made it wait. Ties go to the earlier one. `+backfill`: a
later job may start where it delays no reservation (simulate/queue/reserve.py). `+ageing`: the key
of a size becomes a time, since when it waits plus a handicap that grows with the logarithm of the
size and with the longest wait (ageing.py).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slurm_ext.core.errors import UsageError
from slurm_ext.policy.queue.ageing import aged
from slurm_ext.policy.queue.preempting import LEAST_SERVICE, SHORTEST_LEFT, Preempting

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedJobs:
    """Jobs as a queue knows them: columns of one length."""

    submit_s: Floats  # since when it waits: submitted, and eligible to start
    gpus: NDArray[np.int64]
    estimate_s: Floats  # of the run time; only rules that say so look at it

    @property
    def size(self) -> Floats:
        """Estimated GPU-seconds of each job."""
        product: Floats = self.estimate_s * self.gpus
        return product


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One way to run a queue."""

    name: str
    keys: Callable[[QueuedJobs], Floats]
    oracle: bool = False  # `estimate_s` is the true duration
    estimated: bool = False  # `estimate_s` is a prediction
    backfill: bool = False
    ageing: bool = False
    preempting: Preempting | None = None
    wide: bool = False  # its keys may ask for all columns of a trace
    stateful: Callable[[], Any] | None = None  # makes what orders one replay, in place of `keys`

    def order(
        self, jobs: QueuedJobs, ties: NDArray[np.int64] | None = None, *, lead_s: float = 0.0
    ) -> NDArray[np.int64]:
        """Indices of jobs, who goes first first. `ties` decides where key and time are equal."""
        keys = self.key(jobs, lead_s)
        last = np.arange(len(keys)) if ties is None else ties
        return np.lexsort((last, jobs.submit_s, keys))

    def key(self, jobs: QueuedJobs, lead_s: float = 0.0) -> Floats:
        """Keys of jobs, the lowest first. `lead_s`: see ageing.py; without ageing it is nothing."""
        sizes = self.keys(jobs)
        return aged(jobs.submit_s, sizes, lead_s) if self.ageing else sizes


def _gpus(jobs: QueuedJobs) -> Floats:
    return jobs.gpus.astype(np.float64)


ORDERS: Mapping[str, Rule] = {
    "fifo": Rule(name="fifo", keys=lambda jobs: jobs.submit_s),
    "fewest": Rule(name="fewest", keys=_gpus),
    "shortest": Rule(name="shortest", keys=lambda jobs: jobs.size, oracle=True),
    "qssf": Rule(name="qssf", keys=lambda jobs: jobs.size, estimated=True),
    "srtf": Rule(
        name="srtf", keys=lambda jobs: jobs.submit_s, oracle=True, preempting=SHORTEST_LEFT
    ),
    "tiresias": Rule(name="tiresias", keys=lambda jobs: jobs.submit_s, preempting=LEAST_SERVICE),
}
ADDED = ("backfill", "ageing")
# The others are compared with the first one: no Slurm is without backfill.
USUAL = "fifo+backfill,fifo,fewest+backfill,shortest+backfill,tiresias"


def rule_of(text: str, orders: Mapping[str, Rule] = ORDERS) -> Rule:
    """The rule `ORDER[+backfill][+ageing]`. Raises UsageError, naming what there is."""
    order, *added = text.strip().split("+")
    rule = orders.get(order)
    if rule is None or len(set(added)) < len(added) or not set(added) <= set(ADDED):
        raise UsageError(
            f"--policy {text!r}: expected {', '.join(orders)}, with +backfill or +ageing after it"
        )
    if added and rule.preempting is not None:
        raise UsageError(f"--policy {text!r}: {order} preempts: it takes nothing after it")
    if "ageing" in added and not (rule.oracle or rule.estimated):
        raise UsageError(f"--policy {text!r}: ageing is for qssf and shortest, which order by size")
    extra: dict[str, Any] = dict.fromkeys(added, True)
    return replace(rule, name=text.strip(), **extra)


def rules_of(text: str) -> list[Rule]:
    """The rules of a comma-separated list, each once. Raises UsageError."""
    rules = [rule_of(part) for part in text.split(",")]
    names = [rule.name for rule in rules]
    if len(set(names)) < len(names):
        raise UsageError(f"--policy {text!r} names one policy twice")
    return rules
