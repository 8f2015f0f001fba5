"""All limits of a site, and the usual QOS and accounts of jobs that name none."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np

from slurm_ext.core.errors import InputError
from slurm_ext.simulate.limits.associations import AssociationTable
from slurm_ext.simulate.limits.limit import LimitSet
from slurm_ext.simulate.limits.meters import Metering
from slurm_ext.simulate.limits.qos import QosTable
from slurm_ext.simulate.trace.columns import Trace

UNKNOWN_CPUS = "CPUs not known: limits on cpu do not count them"
NO_ASSOCIATION = "of a user without an association: the limits of its account count alone"
NO_ACCOUNT = "of no account that has an association: none of their limits count"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """A site's QOS and associations, and whether a trace's column gpus holds CPUs."""

    table: QosTable | None = None
    of_partition: Mapping[str, str] = field(default_factory=dict)  # the QOS of partitions
    associations: AssociationTable | None = None
    metering: Metering = field(default_factory=Metering)
    cpus: bool = False

    def sets(self) -> Iterator[tuple[LimitSet, Sequence[str]]]:
        """Each QOS, account and user, and the limits of theirs that no replay has."""
        for qos in self.table.qos.values() if self.table else ():
            yield qos, qos.left_out
        for association in self.associations.by.values() if self.associations else ():
            yield association, association.left_out

    def not_kept(self) -> Iterator[str]:
        """Settings of the files that no replay has."""
        for limit_set, left_out in self.sets():
            yield from (f"{name} of {limit_set.label}" for name in left_out)
            sums = (
                f"{column} {what} of {limit_set.label}"
                for column, what in (*limit_set.sums, *limit_set.each)
            )
            yield from (name for name in sums if self.cpus and "gres/gpu" in name)

    def counts(self, name: str) -> bool:
        """True if some limit is on a column, or counts a TRES, of that name."""
        return any(
            name in limit
            for limit_set, _ in self.sets()
            for limit in (*limit_set.sums, *limit_set.each)
        )


def with_usual(trace: Trace, limits: Limits) -> Trace:
    """The trace, in which each job has a QOS and an account of the site. Raises InputError."""
    if limits.associations is not None:
        trace = _with_accounts(trace, limits.associations)
    if limits.table is not None:
        trace = _with_qos(trace, limits.table, limits.of_partition)
    unknown = int(np.count_nonzero(trace.cpus == 0))
    if unknown and not limits.cpus and limits.counts("cpu"):
        return replace(trace, repairs={**trace.repairs, UNKNOWN_CPUS: unknown})
    return trace


def _with_qos(trace: Trace, table: QosTable, of_partition: Mapping[str, str]) -> Trace:
    missing = sorted({*of_partition.values()} - {*table.qos})
    if missing:
        raise InputError(table.source, f"lacks the QOS {missing[0]!r} of a partition")
    numbers: dict[str, int] = {}
    column = [
        numbers.setdefault(_name(trace, place, table), len(numbers)) for place in range(len(trace))
    ]
    return replace(trace, qos=np.array(column), qoses=tuple(numbers))


def _name(trace: Trace, place: int, table: QosTable) -> str:
    name: str = trace.qoses[trace.qos[place]]
    if not name:
        return table.usual_of(*_who(trace, place))
    if name not in table.qos:
        why = f"job {trace.job[place]} has the QOS {name!r}, of which the file tells nothing"
        raise InputError(table.source, f"{why}: it has {', '.join(table.qos)}")
    return name


def _who(trace: Trace, place: int) -> tuple[str, str]:
    """Account and user of a job."""
    return trace.accounts[trace.account[place]], trace.users[trace.user[place]]


def _with_accounts(trace: Trace, table: AssociationTable) -> Trace:
    """The trace, in which each job has an account, as far as one is known for its user."""
    pairs = {(account, user) for account, user, _ in table.by}
    account_of, numbers = cache(table.account_of), dict[str, int]()
    repairs, column = dict(trace.repairs), []
    for place in range(len(trace)):
        named, user = _who(trace, place)
        account = account_of(named, user)
        column.append(numbers.setdefault(account, len(numbers)))
        if (account, user) not in pairs:
            why = NO_ASSOCIATION if (account, "") in pairs else NO_ACCOUNT
            repairs[why] = repairs.get(why, 0) + 1
    return replace(trace, account=np.array(column), accounts=tuple(numbers), repairs=repairs)
