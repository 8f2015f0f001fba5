"""Limits of associations and QOS on one job, from `sacctmgr --parsable2` (slurmdbd).

Limits on the sum of a user's or a group's jobs count as well: a job above one never starts.
"""

from collections.abc import Iterable, Mapping

from slurm_ext.core.units import MIB, parse_memory, parse_tres
from slurm_ext.slurm.records import Accounting, Association, JobAllowance

_ASSOCIATION = ("Account", "User", "Partition", "ParentName", "DefaultQOS", "QOS")
_ANY_JOB = ("MaxTRESPerJob", "MaxTRESPerNode", "GrpTRES")
_ANY_MINUTES = ("MaxTRESMinsPerJob", "GrpTRESMins", "GrpTRESRunMins")
_QOS_JOB = (*_ANY_JOB, "MaxTRESPerUser", "MaxTRESPerAccount")
_QOS_MINUTES = (*_ANY_MINUTES, "MaxTRESRunMinsPerUser", "MaxTRESRunMinsPerAccount")
_SUMS = ("GrpTRES", "MaxTRESPerUser", "MaxTRESPerAccount")  # over several jobs
_RUNNING = ("GrpTRESRunMins", "MaxTRESRunMinsPerUser", "MaxTRESRunMinsPerAccount")
ASSOCIATION_COLUMNS = (*_ASSOCIATION, *_ANY_JOB, *_ANY_MINUTES)
QOS_COLUMNS = ("Name", "MinTRESPerJob", *_QOS_JOB, *_QOS_MINUTES)


def by_slurmdbd(config: Mapping[str, str]) -> bool:
    """True if accounts and users are slurmdbd's."""
    return config.get("AccountingStorageType", "").endswith("slurmdbd")


def enforced(config: Mapping[str, str]) -> bool:
    """True if slurmctld enforces these limits: with slurmdbd and AccountingStorageEnforce."""
    words = config.get("AccountingStorageEnforce", "").lower().split(",")
    return by_slurmdbd(config) and bool({"limits", "safe", "all"} & set(words))


def read_operators(users: str) -> frozenset[str]:
    """Parse `User|Admin` lines: names of users with a level. Raises ValueError."""
    levels = (line.split("|") for line in users.splitlines() if line)
    return frozenset(user for user, level in levels if level in ("Operator", "Administrator"))


def read_accounting(associations: str, qos: str) -> Accounting:
    """Parse both listings, which have the columns above. Raises ValueError, KeyError."""
    rows = _rows(qos, QOS_COLUMNS)
    return Accounting(
        associations=tuple(_association(row) for row in _rows(associations, ASSOCIATION_COLUMNS)),
        qos={row["Name"]: _allowance(row, _QOS_JOB, _QOS_MINUTES) for row in rows},
    )


def _association(row: Mapping[str, str]) -> Association:
    return Association(
        account=row["Account"],
        user=row["User"],
        partition=row["Partition"],
        parent=row["ParentName"],
        default_qos=row["DefaultQOS"],
        qos=tuple(name for name in row["QOS"].split(",") if name),
        allowance=_allowance(row, _ANY_JOB, _ANY_MINUTES),
    )


def _allowance(row: Mapping[str, str], job: Iterable[str], minutes: Iterable[str]) -> JobAllowance:
    limits = [parse_tres(row[name]) for name in job]
    over_time = [parse_tres(row[name]) for name in minutes]
    least = parse_tres(row.get("MinTRESPerJob", ""))
    return JobAllowance(
        min_cpus=_most([least]),
        max_cpus=_least(limits, "cpu"),
        max_mem_mib=_least(limits, "mem"),
        max_cpu_minutes=_least(over_time, "cpu"),
        max_gpus=_least_gpus(limits),
        max_gpu_minutes=_least_gpus(over_time),
        sum_cpus=_least(_of(row, _SUMS), "cpu"),
        sum_cpu_minutes=_least(_of(row, _RUNNING), "cpu"),
        used_up="cpu" in parse_tres(row["GrpTRESMins"]),
        max_user_gpus=_least_gpus(_of(row, _SUMS)),
        by_other_means=any({"billing", "mem"} & set(tres) for tres in over_time)
        or any("billing" in tres for tres in limits),
        max_mps=_shares("mps", least, limits, over_time),
        max_shard=_shares("shard", least, limits, over_time),
    )


def _of(row: Mapping[str, str], names: Iterable[str]) -> list[dict[str, str]]:
    return [parse_tres(row.get(name, "")) for name in names]


def _shares(
    kind: str,
    least: Mapping[str, str],
    job: Iterable[Mapping[str, str]],
    over_time: Iterable[Mapping[str, str]],
) -> int | None:
    """Most of `kind` (mps, shard) that one job may ask for instead of its GPU; None: no limit.

    0 where GPUs are limited and `kind` is not: a converted job would escape the limit.
    """
    counts = [
        int(tres.get(f"gres/{kind}", 0)) for tres in job if f"gres/{kind}" in tres or _of_gpus(tres)
    ]
    if _of_gpus(least) or any(name.startswith("gres/") for tres in over_time for name in tres):
        counts.append(0)
    return min(counts, default=None)


def _of_gpus(tres: Mapping[str, str]) -> bool:
    return any(name.startswith("gres/gpu") for name in tres)


def _least(limits: Iterable[Mapping[str, str]], name: str) -> int | None:
    return min((_amount(name, tres[name]) for tres in limits if name in tres), default=None)


def _least_gpus(limits: Iterable[Mapping[str, str]]) -> int | None:
    """Fewest of GPUs of any type: a job may be given GPUs of the type that is limited."""
    counts = (int(tres[name]) for tres in limits for name in tres if name.startswith("gres/gpu"))
    return min(counts, default=None)


def _most(limits: Iterable[Mapping[str, str]]) -> int | None:
    return max((int(tres["cpu"]) for tres in limits if "cpu" in tres), default=None)


def _amount(name: str, text: str) -> int:
    """Number of CPUs, or memory in MiB."""
    return parse_memory(text) // MIB if name == "mem" else int(text)


def _rows(text: str, columns: tuple[str, ...]) -> list[dict[str, str]]:
    return [dict(zip(columns, line.split("|"), strict=True)) for line in text.splitlines() if line]
