"""Limits that a job is held to: those of its QOS and, where these are silent, of its association.

Slurm's order: the partition's QOS, the job's own (the other way round with OverPartQOS), the user's
association, its account, and those above. What a QOS limits, an association does not limit again;
but jobs count in every sum of theirs.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from slurm_ext.simulate.limits.associations import GROUP, AssociationTable
from slurm_ext.simulate.limits.limit import (
    JOBS,
    SUBMITTED,
    Limit,
    LimitSet,
    written,
)
from slurm_ext.simulate.limits.qos import NO_DECAY, OVER_PARTITION, Qos, QosTable, in_force

# A limit of an association, and those of a QOS that take its place beside the one of its name.
ALSO: Mapping[Limit, tuple[Limit, ...]] = {
    ("MaxJobs", JOBS): (("MaxJobsPU", JOBS), ("MaxJobsPA", JOBS)),
    ("MaxSubmit", SUBMITTED): (("MaxSubmitPU", SUBMITTED), ("MaxSubmitPA", SUBMITTED)),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitedJob:
    """A job, as far as limits look at it; `counts`: by the names of TRES."""

    qos: str
    partition: str
    user: str
    account: str
    counts: tuple[tuple[str, int], ...]
    limit_s: float = 0.0  # where minutes are kept for it


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """One limit of a job; without `tests` the job counts in its sum and is not held to it."""

    limit: Limit
    value: float
    owner: str
    whose: str = ""  # user or account, where each has a sum of its own
    tests: bool = True
    refuses: bool = False
    decays: bool = True

    @property
    def key(self) -> tuple[str, ...]:
        """The sum in which the job counts."""
        return (self.owner, *self.limit, self.whose)

    @property
    def label(self) -> str:
        """The limit and who sets it."""
        return f"{written(self.limit, self.value)} of {self.owner}"

    def adds(self, counts: Mapping[str, int]) -> int:
        """The amount that a job adds there."""
        return counts.get(self.limit[1], 0)


class HeldLimits:
    """The limits of one site's jobs."""

    def __init__(
        self,
        table: QosTable | None,
        of_partition: Mapping[str, str],
        associations: AssociationTable | None,
    ) -> None:
        """`of_partition`: the QOS of partitions that have one."""
        self._table, self._of_partition = table, of_partition
        self._associations = associations

    def of(self, job: LimitedJob) -> Iterator[Held]:
        """All limits in which a job counts. Raises KeyError where the site has no such QOS."""
        sources = self._qos_of(job)
        force, refuses = in_force(sources), any(qos.refuses() for qos in sources)
        for qos in sources:
            for limit, value in _all(qos):
                yield Held(
                    limit=limit,
                    value=value,
                    owner=qos.label,
                    whose=_whose(limit, job),
                    tests=force[limit] is qos,
                    refuses=refuses,
                    decays=NO_DECAY not in qos.flags,
                )
        yield from self._of_association(job, force, refuses)

    def usage_factor(self, job: LimitedJob) -> float:
        """UsageFactor of the job's own QOS; its partition's does not count."""
        return self._table.qos[job.qos].usage_factor if self._table and job.qos else 1.0

    def asked_factor(self, job: LimitedJob) -> float:
        """Factor of the minutes that its time limit asks for: with the flag UsageFactorSafe."""
        return self._table.qos[job.qos].asked_factor if self._table and job.qos else 1.0

    def _of_association(
        self, job: LimitedJob, force: Mapping[Limit, Qos], refuses: bool
    ) -> Iterator[Held]:
        if self._associations is None:
            return
        for association in self._associations.path(job.account, job.user, job.partition):
            for limit, value in _all(association):
                yield Held(
                    limit=limit,
                    value=value,
                    owner=association.label,
                    whose="" if limit[0].startswith(GROUP) else job.user,
                    tests=not any(other in force for other in (limit, *ALSO.get(limit, ()))),
                    refuses=refuses,
                )

    def _qos_of(self, job: LimitedJob) -> tuple[Qos, ...]:
        """The QOS whose limits it has, the one whose word counts first."""
        if self._table is None:
            return ()
        names = [self._of_partition.get(job.partition, ""), job.qos]
        both = [self._table.qos[name] for name in dict.fromkeys(names) if name]
        if OVER_PARTITION in both[-1].flags if both else False:
            both.reverse()
        return tuple(both)


def _all(limit_set: LimitSet) -> Iterator[tuple[Limit, float]]:
    yield from limit_set.sums.items()
    yield from limit_set.each.items()


def _whose(limit: Limit, job: LimitedJob) -> str:
    """The user or account of a QOS's sum; empty: it is of all jobs."""
    column = limit[0]
    return job.user if column.endswith("PU") else job.account if column.endswith("PA") else ""
