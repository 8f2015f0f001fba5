"""Slurm's reasons that name a limit of a QOS or an association, taken apart. Pure.

The names are those of Slurm's job states, 22.05 to 26.05: QOSMaxCpuPerUserLimit,
AssocGrpGRESRunMinutes, MaxJobsPerAccount, ...
"""

import re
from dataclasses import dataclass

_REASON = re.compile(
    r"(?P<of>QOS|Assoc)?(?P<how>Grp|Max|Min)"
    r"(?P<what>Cpu|CPU|Mem|Memory|Node|GRES|Billing|Energy|License|BB|Jobs?|Submit(?:Jobs?)?|Wall"
    r"|WallDuration)(?P<time>RunMinutes|Minutes)?"
    r"(?:Per(?P<per>Job|User|Account|Node))?(?:NotSatisfied)?(?:Limit)?"
)
_TRES = {
    "cpu": "cpu",
    "mem": "mem",
    "memory": "mem",
    "node": "node",
    "gres": "gres/",
    "billing": "billing",
    "energy": "energy",
    "license": "license/",
    "bb": "bb/",
}
_COUNTS = {"job": "Jobs", "submitjob": "SubmitJobs", "submit": "SubmitJobs", "wall": "Wall"}
_PER = {"Job": "PJ", "Node": "PN", "User": "PU", "Account": "PA"}
_MINUTES = {"Minutes": "Mins", "RunMinutes": "RunMins"}


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitName:
    """A kind of limit: where it is looked up, and what it counts."""

    of_qos: bool  # else of an association
    key: str  # of EnforcedLimits; one that ends with a slash has any type behind it
    counts: str  # a TRES (cpu, gres/, ...), job, submitjob or wall
    per: str  # job, node, user, account; empty: all jobs of the QOS or association together
    minutes: str = ""  # of the TRES: used so far, or running, which is still to come
    is_least: bool = False


def limit_name(reason: str) -> LimitName | None:
    """The limit that a reason names; None: it names none that is known."""
    match = _REASON.fullmatch(reason)
    if match is None:
        return None
    how, per = match["how"], match["per"] or ""
    if match["of"] is None and per != "Account":  # Slurm leaves "QOS" out of these alone
        return None
    what = match["what"].lower().replace("jobs", "job")
    is_least = how == "Min"
    of_one = is_least or (how == "Max" and what.startswith("wall"))
    per = "Job" if of_one else per
    return LimitName(
        of_qos=match["of"] != "Assoc",
        key=_key(how, what.removesuffix("duration"), match["time"], per),
        counts=_TRES.get(what, what.removesuffix("duration")),
        per=per.lower(),
        minutes={"Minutes": "used", "RunMinutes": "running"}.get(match["time"] or "", ""),
        is_least=is_least,
    )


def _key(how: str, what: str, time: str | None, per: str) -> str:
    suffix = _PER.get(per, "")
    if what in _COUNTS:
        return f"{how}{_COUNTS[what]}{suffix}"
    return f"{how}TRES{_MINUTES.get(time or '', '')}{suffix}/{_TRES[what]}"
