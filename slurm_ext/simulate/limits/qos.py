"""A QOS with the limits that a replay keeps, by the names of sacctmgr's columns.

| column | the sum over its jobs that |
|---|---|
| GrpTRES, GrpJobs | run |
| MaxTRESPU, MaxJobsPU | run, of one user |
| MaxTRESPA, MaxJobsPA | run, of one account |
| GrpSubmit, MaxSubmitPU, MaxSubmitPA | run or wait: sbatch refuses one more |

MaxTRES, MinTRES and MaxWall are of each job. Of TRES are counted cpu, gres/gpu and gres/gpu:MODEL,
the last one for jobs that ask for the model.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

JOBS, SUBMITTED, SECONDS = "jobs", "submitted", "seconds"  # counted beside the names of TRES
DENY, OVER_PARTITION = "denyonlimit", "overpartqos"
SUMS: Mapping[str, str | None] = {
    "GrpTRES": None,
    "MaxTRESPU": None,
    "MaxTRESPA": None,
    "GrpJobs": JOBS,
    "MaxJobsPU": JOBS,
    "MaxJobsPA": JOBS,
    "GrpSubmit": SUBMITTED,
    "MaxSubmitPU": SUBMITTED,
    "MaxSubmitPA": SUBMITTED,
}
"""Limits on sums of jobs, and what each counts; None: a TRES that it names."""

Limit = tuple[str, str]  # column, and what is counted
WALL: Limit = ("MaxWall", SECONDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Qos:
    """One QOS. `left_out`: what it sets and no replay has."""

    name: str
    priority: float = 0.0
    flags: frozenset[str] = frozenset()
    sums: Mapping[Limit, int] = field(default_factory=dict)
    each: Mapping[Limit, float] = field(default_factory=dict)  # MaxTRES, MinTRES, MaxWall
    left_out: tuple[str, ...] = ()

    def refuses(self) -> bool:
        """True if sbatch refuses a job that a limit never lets start; else it waits for ever."""
        return DENY in self.flags


@dataclass(frozen=True, slots=True, kw_only=True)
class QosTable:
    """The QOS of a site, and which one a job has that names none."""

    source: str
    qos: Mapping[str, Qos]
    usual: Mapping[tuple[str, str], str] = field(default_factory=dict)  # by account and user

    def usual_of(self, account: str, user: str) -> str:
        """Name of the default QOS: of the user, of the account, or of the cluster; else normal."""
        for who in ((account, user), (account, ""), ("", "")):
            if who in self.usual:
                return self.usual[who]
        return "normal" if "normal" in self.qos else ""

    def priorities(self) -> dict[str, float]:
        """Priority of each over the highest, as priority/multifactor takes them."""
        most = max((one.priority for one in self.qos.values()), default=0.0) or 1.0
        return {name: one.priority / most for name, one in self.qos.items()}


def written(limit: Limit, value: float) -> str:
    """A limit as sacctmgr writes it."""
    column, counted = limit
    if counted == SECONDS:
        return f"{column}={value / 60:g} minutes"
    return (
        f"{column}={value:g}" if counted in (JOBS, SUBMITTED) else f"{column}={counted}={value:g}"
    )


def in_force(qos: tuple[Qos, ...]) -> dict[Limit, Qos]:
    """The QOS whose limit counts: the first one that sets it."""
    return {limit: one for one in reversed(qos) for limit in (*one.sums, *one.each)}
