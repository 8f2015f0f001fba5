"""Limits that a replay keeps, by the names of sacctmgr's columns.

| column | of whom | the sum over jobs that |
|---|---|---|
| GrpTRES, GrpJobs | a QOS, an account with those below it, a user | run |
| MaxTRESPU, MaxJobsPU | a QOS | run, of one user |
| MaxTRESPA, MaxJobsPA | a QOS | run, of one account |
| MaxJobs | an account or a user | run, of each user |
| GrpSubmit, MaxSubmitPU, MaxSubmitPA, MaxSubmit | the same | run or wait: sbatch refuses one more |
| GrpTRESMins | as GrpTRES | have run: minutes of a TRES, which decay as fair share does |
| GrpWall | as GrpTRES | have run: minutes, which decay alike |
| GrpTRESRunMins | as GrpTRES | run: minutes of a TRES that their time limits leave them |

MaxTRES, MinTRES, MaxTRESMins and MaxWall are of each job. Of TRES are counted cpu, gres/gpu and
gres/gpu:MODEL, the last one for jobs that ask for the model.
"""

from collections.abc import Mapping
from typing import Protocol

JOBS, SUBMITTED, SECONDS = "jobs", "submitted", "seconds"  # counted beside the names of TRES
MINUTES = "minutes"
GROUP_MINUTES, JOB_MINUTES = "GrpTRESMins", "MaxTRESMins"
RUNNING_MINUTES, GROUP_WALL = "GrpTRESRunMins", "GrpWall"
METERED = (GROUP_MINUTES, RUNNING_MINUTES, GROUP_WALL)  # sums of minutes
SUMS: Mapping[str, str | None] = {
    "GrpTRES": None,
    GROUP_MINUTES: None,
    RUNNING_MINUTES: None,
    GROUP_WALL: MINUTES,
    "MaxTRESPU": None,
    "MaxTRESPA": None,
    "GrpJobs": JOBS,
    "MaxJobs": JOBS,
    "MaxJobsPU": JOBS,
    "MaxJobsPA": JOBS,
    "GrpSubmit": SUBMITTED,
    "MaxSubmit": SUBMITTED,
    "MaxSubmitPU": SUBMITTED,
    "MaxSubmitPA": SUBMITTED,
}
"""Limits on sums of jobs, and what each counts; None: a TRES that it names."""

OF_A_JOB = ("MaxTRES", "MinTRES", JOB_MINUTES)  # of a TRES that they name

Limit = tuple[str, str]  # column, and what is counted
WALL: Limit = ("MaxWall", SECONDS)


class LimitSet(Protocol):
    """A QOS, an account or a user, with its limits."""

    @property
    def label(self) -> str:
        """Its name, as messages have it."""

    @property
    def sums(self) -> Mapping[Limit, int]:
        """Limits on sums of jobs."""

    @property
    def each(self) -> Mapping[Limit, float]:
        """Limits of each job."""


def written(limit: Limit, value: float) -> str:
    """A limit as sacctmgr writes it."""
    column, counted = limit
    if counted == SECONDS:
        return f"{column}={value / 60:g} minutes"
    if counted == MINUTES:
        return f"{column}={value:g} minutes"
    return (
        f"{column}={value:g}" if counted in (JOBS, SUBMITTED) else f"{column}={counted}={value:g}"
    )
