"""Jobs that never start: above a limit even alone, or with a time limit that asks for too much."""

from collections.abc import Iterator, Mapping, Sequence
from math import inf

from slurm_ext.simulate.limits.held import Held
from slurm_ext.simulate.limits.limit import (
    GROUP_MINUTES,
    JOB_MINUTES,
    METERED,
    RUNNING_MINUTES,
    SUBMITTED,
    WALL,
    written,
)

WAITS = "would wait for ever"
REFUSED = "refused"


def never(limits: Sequence[Held], counts: Mapping[str, int]) -> str:
    """The limit that a job is above even if it is alone; empty: none."""
    return next(_above(limits, counts), "")


def longest(
    limits: Sequence[Held], counts: Mapping[str, int], factor: float, *, safe: bool
) -> tuple[float, str]:
    """The longest time limit, s, with which such a job may start; and whose word that is.

    `factor`: of the minutes that it asks for; `safe`: as Metering has it.
    """
    bounds = [(inf, "")]
    for limit in limits:
        seconds = _most_s(limit, limit.adds(counts), safe=safe)
        if limit.tests and seconds < inf:
            unsafe = limit.limit[0] == GROUP_MINUTES and not safe  # sbatch alone looks at it
            bounds.append((seconds if unsafe else _asked(limit, seconds, factor), why(limit)))
    return min(bounds)


def why(limit: Held) -> str:
    """A limit in words, and what becomes of a job that is above it."""
    fate = REFUSED if limit.refuses or limit.limit[1] == SUBMITTED else WAITS
    return f"{fate}: {written(limit.limit, limit.value)} of {limit.owner}"


def _most_s(limit: Held, needs: int, *, safe: bool) -> float:
    """The seconds that a limit leaves to a job that is alone."""
    column = limit.limit[0]
    if limit.limit == WALL:
        return limit.value
    whole = column == GROUP_MINUTES and (safe or limit.refuses)
    if needs and (whole or column in (JOB_MINUTES, RUNNING_MINUTES)):
        return limit.value * 60 / needs
    return inf


def _asked(limit: Held, seconds: float, factor: float) -> float:
    """The time limit that asks for so many seconds; sbatch itself looks at no factor."""
    factor = max(1.0, factor) if limit.refuses else factor
    return seconds / factor if factor else inf


def _above(limits: Sequence[Held], counts: Mapping[str, int]) -> Iterator[str]:
    for limit in limits:
        column, _ = limit.limit
        if not limit.tests or limit.limit == WALL or column == JOB_MINUTES:
            continue
        needs = limit.adds(counts)
        if column in METERED:
            if not limit.value:
                yield why(limit)
        elif needs < limit.value if column == "MinTRES" else needs > limit.value:
            yield why(limit)
