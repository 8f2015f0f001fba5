"""A trace under a site's limits: who never starts, and the sums of those who do."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import isnan

import numpy as np

from slurm_ext.core.errors import InputError
from slurm_ext.simulate.limits.budgets import Budgets
from slurm_ext.simulate.limits.claims import Claim, ClaimBook
from slurm_ext.simulate.limits.held import HeldLimits, LimitedJob
from slurm_ext.simulate.limits.limit import GROUP_MINUTES, RUNNING_MINUTES
from slurm_ext.simulate.limits.site_limits import Limits
from slurm_ext.simulate.trace.columns import Column, Trace

NAMED = 3  # jobs that a message names


class LimitedTrace:
    """The claims of a trace's jobs, in its order."""

    def __init__(self, trace: Trace, limits: Limits) -> None:
        owners = HeldLimits(limits.table, limits.of_partition, limits.associations)
        book = ClaimBook(owners, limits.metering)
        kinds: dict[LimitedJob, int] = {}
        numbers = [kinds.setdefault(job, len(kinds)) for job in _jobs(trace, limits)]
        self._trace, self._of = trace, np.array(numbers, dtype=np.int64)
        self._claims: list[Claim] = [book.claim(job) for job in kinds]
        self._counters, self._half_lives_s = len(book), book.half_lives_s
        self._metering = limits.metering

    def budgets(self, order: Column, limit_s: Sequence[float]) -> Budgets:
        """The sums of a replay whose jobs are in an order, with time limits; none of them runs."""
        return Budgets(
            self._claims,
            self._of[order].tolist(),
            self._counters,
            half_lives_s=self._half_lives_s,
            metering=self._metering,
            limit_s=limit_s,
        )

    @property
    def most_s(self) -> Column:
        """The longest time limit with which each job may start; inf: any."""
        most_s: Column = np.array([claim.most_s for claim in self._claims])[self._of]
        return most_s

    def within(self) -> Trace:
        """The trace without jobs that never start; these are counted, and the first named."""
        excluded = defaultdict[str, list[int]](list)
        for place, number in enumerate(self._of.tolist()):
            claim = self._claims[number]
            why = claim.never
            if self._trace.limit_s[place] > claim.most_s:
                why = why or claim.too_long
            if why:
                excluded[why].append(place)
        return without(self._trace, excluded)


def without(trace: Trace, excluded: Mapping[str, Sequence[int]]) -> Trace:
    """The trace without the jobs at some places, by why; counted, and the first ones named."""
    kept, repairs = np.ones(len(trace), dtype=bool), dict(trace.repairs)
    for why, places in excluded.items():
        kept[places] = False
        repairs[f"{why} ({named([trace.job[place] for place in places])})"] = len(places)
    if not kept.any():
        raise InputError(trace.source, f"no job to replay: {'; '.join(excluded)}")
    return replace(trace.only(kept, ""), repairs=repairs)


def named(jobs: Sequence[str]) -> str:
    """The first jobs of some."""
    more = f" and {len(jobs) - NAMED} more" if len(jobs) > NAMED else ""
    return f"job {', '.join(jobs[:NAMED])}{more}"


def _jobs(trace: Trace, limits: Limits) -> Iterator[LimitedJob]:
    asks = limits.metering.safe and limits.counts(GROUP_MINUTES)
    asks = asks or limits.counts(RUNNING_MINUTES)
    for place in range(len(trace)):
        model = trace.gpu_types[trace.gpu_type[place]]
        gpus, cpus = int(trace.gpus[place]), int(trace.cpus[place])
        counts = {"cpu": gpus} if limits.cpus else {"cpu": cpus, "gres/gpu": gpus}
        if model and not limits.cpus:
            counts[f"gres/gpu:{model}"] = gpus
        limit_s = float(trace.limit_s[place])
        limit_s = float(trace.duration_s[place]) if isnan(limit_s) else limit_s
        yield LimitedJob(
            qos=trace.qoses[trace.qos[place]],
            partition=trace.vcs[trace.vc[place]],
            user=trace.users[trace.user[place]],
            account=trace.accounts[trace.account[place]],
            counts=tuple(counts.items()),
            limit_s=limit_s if asks else 0.0,
        )
