"""A trace under the limits of QOS: who has which, who never starts, and what cannot be counted."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from slurm_ext.core.errors import InputError
from slurm_ext.simulate.limits.budgets import Budgets
from slurm_ext.simulate.limits.claims import Claim, ClaimBook, LimitedJob
from slurm_ext.simulate.limits.qos import QosTable
from slurm_ext.simulate.trace.columns import Column, Trace

NAMED = 3  # jobs that a message names
UNKNOWN_CPUS = "CPUs not known: limits on cpu do not count them"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """A site's QOS, the QOS of its partitions, and whether a trace's column gpus holds CPUs."""

    table: QosTable
    of_partition: Mapping[str, str]
    cpus: bool = False

    def not_kept(self) -> Iterator[str]:
        """Settings of the file that no replay has."""
        for one in self.table.qos.values():
            yield from (f"{name} of QOS {one.name}" for name in one.left_out)
            sums = (f"{column} {what} of QOS {one.name}" for column, what in (*one.sums, *one.each))
            yield from (name for name in sums if self.cpus and "gres/gpu" in name)


def with_usual_qos(trace: Trace, limits: Limits) -> Trace:
    """The trace, in which each job has a QOS of the table. Raises InputError."""
    missing = sorted({*limits.of_partition.values()} - {*limits.table.qos})
    if missing:
        raise InputError(limits.table.source, f"lacks the QOS {missing[0]!r} of a partition")
    numbers: dict[str, int] = {}
    column = [
        numbers.setdefault(_name(trace, place, limits.table), len(numbers))
        for place in range(len(trace))
    ]
    repairs: dict[str, int] = {}
    unknown = int(np.count_nonzero(trace.cpus == 0))
    if unknown and not limits.cpus and any("cpu" in limit for limit in _set(limits.table)):
        repairs[UNKNOWN_CPUS] = unknown
    names = tuple(numbers)
    return replace(trace, qos=np.array(column), qoses=names, repairs={**trace.repairs, **repairs})


def _set(table: QosTable) -> Iterator[Sequence[str]]:
    for one in table.qos.values():
        yield from (*one.sums, *one.each)


def _name(trace: Trace, place: int, table: QosTable) -> str:
    name: str = trace.qoses[trace.qos[place]]
    if not name:
        account, user = trace.accounts[trace.account[place]], trace.users[trace.user[place]]
        return table.usual_of(account, user)
    if name not in table.qos:
        why = f"job {trace.job[place]} has the QOS {name!r}, of which the file tells nothing"
        raise InputError(table.source, f"{why}: it has {', '.join(table.qos)}")
    return name


class LimitedTrace:
    """The claims of a trace's jobs, in its order."""

    def __init__(self, trace: Trace, limits: Limits) -> None:
        book = ClaimBook(limits.table, limits.of_partition)
        kinds: dict[LimitedJob, int] = {}
        numbers = [kinds.setdefault(job, len(kinds)) for job in _jobs(trace, limits)]
        self._trace, self._of = trace, np.array(numbers, dtype=np.int64)
        self._claims: list[Claim] = [book.claim(job) for job in kinds]
        self._counters = len(book)

    def budgets(self, order: Column) -> Budgets:
        """The sums of a replay whose jobs are in an order, none of them running."""
        return Budgets(self._claims, self._of[order].tolist(), self._counters)

    def within(self) -> Trace:
        """The trace without jobs that never start; these are counted, and the first named."""
        found = defaultdict[str, list[int]](list)
        for place, number in enumerate(self._of.tolist()):
            claim = self._claims[number]
            why = claim.never
            if self._trace.limit_s[place] > claim.most_s:
                why = why or claim.too_long
            if why:
                found[why].append(place)
        return without(self._trace, found)


def without(trace: Trace, found: Mapping[str, Sequence[int]]) -> Trace:
    """The trace without the jobs at some places, by why; counted, and the first ones named."""
    kept, repairs = np.ones(len(trace), dtype=bool), dict(trace.repairs)
    for why, places in found.items():
        kept[places] = False
        repairs[f"{why} ({named([trace.job[place] for place in places])})"] = len(places)
    if not kept.any():
        raise InputError(trace.source, f"no job to replay: {'; '.join(found)}")
    return replace(trace.only(kept, ""), repairs=repairs)


def named(jobs: Sequence[str]) -> str:
    """The first jobs of some."""
    more = f" and {len(jobs) - NAMED} more" if len(jobs) > NAMED else ""
    return f"job {', '.join(jobs[:NAMED])}{more}"


def _jobs(trace: Trace, limits: Limits) -> Iterator[LimitedJob]:
    for place in range(len(trace)):
        model = trace.gpu_types[trace.gpu_type[place]]
        gpus, cpus = int(trace.gpus[place]), int(trace.cpus[place])
        counts = {"cpu": gpus} if limits.cpus else {"cpu": cpus, "gres/gpu": gpus}
        if model and not limits.cpus:
            counts[f"gres/gpu:{model}"] = gpus
        yield LimitedJob(
            qos=trace.qoses[trace.qos[place]],
            partition=trace.vcs[trace.vc[place]],
            user=trace.users[trace.user[place]],
            account=trace.accounts[trace.account[place]],
            counts=tuple(counts.items()),
        )
