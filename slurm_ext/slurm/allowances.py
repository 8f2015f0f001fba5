"""Accounting limits of one job: association, accounts above it, and QOS. Pure.

Slurm lets a QOS override an association, and a partition's QOS the job's; here the narrowest of all
counts. That may forgo a gain and never has a job rejected or pending for ever.
"""

from collections.abc import Iterable, Iterator, Sequence

from slurm_ext.core.records import Submission
from slurm_ext.slurm.records import Accounting, Association, JobAllowance, JobInfo

_MOST_ABOVE = 64  # accounts over accounts; a loop among them must not hang slurmctld


class Allowances:
    """The limits that Slurm enforces, found by user and account at once."""

    def __init__(self, accounting: Accounting) -> None:
        self._qos = accounting.qos
        self._users: dict[str, list[Association]] = {}
        self._accounts: dict[str, Association] = {}
        for association in accounting.associations:
            if association.user:
                self._users.setdefault(association.user, []).append(association)
            else:
                self._accounts[association.account.lower()] = association

    def accounts_of(self, user: str) -> set[str]:
        """Names of the accounts that the user has an association with, in lower case."""
        return {association.account.lower() for association in self._users.get(user, ())}

    def of(
        self, job: Submission | JobInfo, partition_qos: Iterable[str] = ()
    ) -> JobAllowance | None:
        """The narrowest limits that may hold for the job; None where not all are known."""
        own = self._own(job)
        names = {
            *partition_qos,
            *(name for association in own for name in _qos_of(job, association)),
        }
        if not own or not names <= self._qos.keys():
            return None
        above = (account.allowance for association in own for account in self._above(association))
        return narrowest(
            [
                *above,
                *(association.allowance for association in own),
                *(self._qos[name] for name in names),
            ]
        )

    def _own(self, job: Submission | JobInfo) -> list[Association]:
        """The user's associations that the job may run under: usually one."""
        account = (job.account or "").lower()
        return [
            association
            for association in self._users.get(job.user_name, ())
            if account in ("", association.account.lower())
        ]

    def _above(self, own: Association) -> Iterator[Association]:
        name = own.account.lower()
        for _ in range(_MOST_ABOVE):
            account = self._accounts.get(name)
            if account is None:
                return
            yield account
            name = account.parent.lower()


def narrowest(limits: Sequence[JobAllowance]) -> JobAllowance:
    """Limits within all of `limits`."""
    return JobAllowance(
        min_cpus=max((limit.min_cpus or 0 for limit in limits), default=0) or None,
        max_cpus=_least(limit.max_cpus for limit in limits),
        max_mem_mib=_least(limit.max_mem_mib for limit in limits),
        max_cpu_minutes=_least(limit.max_cpu_minutes for limit in limits),
        sum_cpus=_least(limit.sum_cpus for limit in limits),
        sum_cpu_minutes=_least(limit.sum_cpu_minutes for limit in limits),
        used_up=any(limit.used_up for limit in limits),
        max_gpus=_least(limit.max_gpus for limit in limits),
        max_gpu_minutes=_least(limit.max_gpu_minutes for limit in limits),
        max_user_gpus=_least(limit.max_user_gpus for limit in limits),
        by_other_means=any(limit.by_other_means for limit in limits),
        max_mps=_least(limit.max_mps for limit in limits),
        max_shard=_least(limit.max_shard for limit in limits),
    )


def _qos_of(job: Submission | JobInfo, own: Association) -> Sequence[str]:
    """The QOS asked for, else the default one, else any that the association may use."""
    if job.qos:
        return job.qos.split(",")
    return (own.default_qos,) if own.default_qos else own.qos


def _least(values: Iterable[int | None]) -> int | None:
    return min((value for value in values if value is not None), default=None)
