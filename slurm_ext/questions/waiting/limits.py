"""A limit of a QOS or association that a job waits for: its number, its use, and who holds it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from slurm_ext.questions.waiting import holders
from slurm_ext.questions.waiting.limit_words import LimitName, limit_name
from slurm_ext.slurm.records import EnforcedLimits, JobInfo, Limits

_MOST_ABOVE = 64  # accounts over accounts; a loop among them ends there
_UNITS = {"cpu": "CPU", "node": "node", "job": "job", "submitjob": "job", "billing": "billing unit"}


def limit_of(
    job: JobInfo, jobs: Sequence[JobInfo], every: Sequence[EnforcedLimits], partition_qos: str
) -> dict[str, Any] | None:
    """`{kind, of, name, per, who, resource, minutes, least, limit, used, asked, never, holders}`.

    Memory in MiB, times in minutes. `never`: the job alone is beyond the limit. None: its reason
    names no limit, or Slurm shows none.
    """
    name = limit_name(job.reason)
    if name is None:
        return None
    places = [place for place in _places(job, every, partition_qos, name) if place[2]]
    rows = [_row(job, jobs, every, name, *place) for place in places]
    # Of several limits by that name, the one that the job would break.
    return next((row for row in rows if _is_broken(row)), rows[0] if rows else None)


Place = tuple[EnforcedLimits, str, tuple[float, float | None] | None]


def _places(
    job: JobInfo, every: Sequence[EnforcedLimits], partition_qos: str, name: LimitName
) -> Iterator[Place]:
    """Limits of that name which may hold for the job, with their full keys."""
    holding = _of_qos(job, every, partition_qos) if name.of_qos else _chain(job, every)
    for holder in holding:
        limits: Limits = holder.limits
        if name.per == "user" and name.of_qos:
            limits = holder.by_user.get(job.user_id, {})
        elif name.per == "account":
            limits = holder.by_account.get(job.account, {})
        for key, limit in limits.items():
            if key == name.key or (name.key.endswith("/") and key.startswith(name.key)):
                yield holder, key, limit


def _of_qos(
    job: JobInfo, every: Sequence[EnforcedLimits], partition_qos: str
) -> Iterator[EnforcedLimits]:
    for qos in dict.fromkeys((partition_qos, *job.qos.split(","))):
        yield from (limit for limit in every if qos and limit.qos == qos)


def _chain(job: JobInfo, every: Sequence[EnforcedLimits]) -> Iterator[EnforcedLimits]:
    """The user's association, its account, and the accounts above."""
    account = job.account
    yield from (limit for limit in every if (limit.account, limit.user) == (account, job.user_name))
    for _ in range(_MOST_ABOVE):
        own = next((o for o in every if o.account == account and not o.user), None)
        if own is None or not account:
            return
        yield own
        account = own.parent


def _row(
    job: JobInfo,
    jobs: Sequence[JobInfo],
    every: Sequence[EnforcedLimits],
    name: LimitName,
    place: EnforcedLimits,
    key: str,
    limit: tuple[float, float | None] | None,
) -> dict[str, Any]:
    most, used = limit or (0.0, None)
    resource = key.partition("/")[2] or name.counts
    amount = _amount(job, resource, name)
    alone = name.per in ("job", "node")
    return {
        "kind": "limit",
        "of": "qos" if name.of_qos else "association",
        "name": place.qos or place.account,
        "per": name.per or None,
        "user": job.user_name if name.per == "user" or place.user else None,
        "account": job.account if name.per == "account" else None,
        "resource": resource,
        "minutes": name.minutes or None,
        "least": name.is_least,
        "limit": most,
        "used": used,
        "asked": amount,
        "never": amount is not None and (amount < most if name.is_least else amount > most),
        "holders": [] if alone else _holders(job, jobs, every, name, place, resource),
    }


def _is_broken(row: Mapping[str, Any]) -> bool:
    return bool(row["never"] or (row["used"] or 0.0) + (row["asked"] or 0.0) > row["limit"])


def _holders(
    job: JobInfo,
    jobs: Sequence[JobInfo],
    every: Sequence[EnforcedLimits],
    name: LimitName,
    place: EnforcedLimits,
    resource: str,
) -> list[dict[str, Any]]:
    """Running jobs that count for the limit; of time that is used up nobody holds any."""
    if name.minutes == "used" or name.counts in ("submitjob", "wall"):
        return []
    accounts = {place.account, *_below(place.account, every)} if place.account else None

    def amount(other: JobInfo) -> float | None:
        counts = other.qos == place.qos if place.qos else other.account in (accounts or ())
        if name.per == "user" or place.user:
            counts = counts and other.user_name == job.user_name
        if name.per == "account":
            counts = counts and other.account == job.account
        return _amount(other, resource, name) if counts else None

    return holders.holders(jobs, amount)


def _below(account: str, every: Sequence[EnforcedLimits]) -> set[str]:
    """Accounts under an account, at any depth."""
    below: set[str] = set()
    todo = {account}
    while todo:
        todo = {
            association.account
            for association in every
            if not association.user and association.parent in todo
        } - below
        below |= todo
    return below


def _amount(job: JobInfo, resource: str, name: LimitName) -> float | None:
    """The job's part of a limit; None: Slurm's listing does not say."""
    amounts: dict[str, float | None] = {
        "cpu": job.cpus,
        "mem": job.mem_mib,
        "node": job.node_count,
        "job": 1,
        "submitjob": 1,
        "wall": job.time_limit_minutes,
    }
    much = job.gpus if resource.startswith("gres/gpu") else amounts.get(resource)
    if much is not None and name.per == "node":
        much = -(-much // (job.node_count or 1))
    if much is None or not name.minutes:
        return much
    return None if job.time_limit_minutes is None else much * job.time_limit_minutes


def lines(row: Mapping[str, Any]) -> Iterator[str]:
    """For people: the limit, and who holds it."""

    def said(amount: float) -> str:
        return _said(amount, row["resource"], minutes=bool(row["minutes"]))

    bound = "at least" if row["least"] else "at most"
    parts = [f"{bound} {said(row['limit'])}{_of_time(row)}"]
    if row["used"] is not None:
        parts.append(f"{said(row['used'])} in use")
    if row["asked"] is not None:
        parts.append(f"it asks for {said(row['asked'])}")
    never = ": it never starts so" if row["never"] else ""
    yield f"limit:    {_scope(row)}: {', '.join(parts)}{never}"
    yield from holders.lines(row["holders"], said)


def _scope(row: Mapping[str, Any]) -> str:
    where = f"QOS {row['name']}" if row["of"] == "qos" else f"account {row['name']}"
    if row["per"] in ("job", "node"):
        return f"one {'job' if row['per'] == 'job' else 'node of a job'} of {where}"
    if row["user"]:
        return f"{row['user']}'s jobs of {where} together"
    account = f"of account {row['account']} " if row["account"] else ""
    return f"all jobs {account}of {where} together"


def _of_time(row: Mapping[str, Any]) -> str:
    return {"used": " used up", "running": " left to run"}.get(row["minutes"] or "", "")


def _said(amount: float, resource: str, *, minutes: bool) -> str:
    from slurm_ext.core.units import format_minutes
    from slurm_ext.report.formatting import shown

    if resource == "wall":
        return format_minutes(amount)
    if resource == "mem":
        return shown(amount * 2**20, "bytes") + ("-minutes" if minutes else "")
    unit = _UNITS.get(resource, resource)
    if resource.startswith("gres/gpu"):
        unit = f"{resource.partition(':')[2]} GPU".lstrip()
    if minutes:
        return f"{amount:,.6g} {unit}-minutes"
    return f"{amount:,.6g} {unit}{'' if amount == 1 else 's'}"
