"""Values of limits: numbers, times and TRES, under each name that sacctmgr has."""

import re
from collections.abc import Collection, Iterator, Mapping

from slurm_ext.core.units import parse_minutes, parse_tres
from slurm_ext.simulate.limits.limit import MINUTES, OF_A_JOB, SUMS, WALL, Limit

LONG = {
    "GrpSubmitJobs": "GrpSubmit",
    "MaxTRESPerJob": "MaxTRES",
    "MaxTRESPerUser": "MaxTRESPU",
    "MaxTRESPerAccount": "MaxTRESPA",
    "MaxTRESMinsPerJob": "MaxTRESMins",
    "MaxJobsPerUser": "MaxJobsPU",
    "MaxJobsPerAccount": "MaxJobsPA",
    "MaxSubmitJobs": "MaxSubmit",
    "MaxSubmitJobsPerUser": "MaxSubmitPU",
    "MaxSubmitJobsPU": "MaxSubmitPU",
    "MaxSubmitJobsPerAccount": "MaxSubmitPA",
    "MaxSubmitJobsPA": "MaxSubmitPA",
    "MaxWallDurationPerJob": "MaxWall",
    "MinTRESPerJob": "MinTRES",
}
"""Other names of columns, those of dumps among them."""

_COUNTED = re.compile(r"cpu|gres/gpu(:.+)?")
_FACTOR = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")
_NUMBER = re.compile(r"[0-9]{1,12}(\.0{1,9})?")


def columns_that_say(values: Mapping[str, str]) -> dict[str, str]:
    """Columns that are set, by the names that a replay has for them."""
    named = {LONG.get(column, column): text.strip() for column, text in values.items()}
    return {column: text for column, text in named.items() if text not in ("", "-1")}


def limits_of(columns: Mapping[str, str]) -> dict[Limit, int]:
    """The limits that a replay keeps. Raises ValueError, naming the column."""
    return dict(_limits(columns))


def _limits(columns: Mapping[str, str]) -> Iterator[tuple[Limit, int]]:
    for column, text in columns.items():
        if column == WALL[0]:
            yield WALL, seconds(column, text)
        elif SUMS.get(column) == MINUTES:
            yield (column, MINUTES), seconds(column, text) // 60
        elif counted := SUMS.get(column):
            yield (column, counted), number(column, text)
        elif column in SUMS or column in OF_A_JOB:
            for name, amount in _tres(column, text):
                if _COUNTED.fullmatch(name):
                    yield (column, name), number(f"{column} {name}", amount)


def left_out(columns: Mapping[str, str], elsewhere: Collection[str]) -> Iterator[str]:
    """Columns that are set, may change who starts, and are not replayed.

    `elsewhere`: columns that are read apart, or that decide nothing.
    """
    for column, text in columns.items():
        if column in SUMS or column in OF_A_JOB:
            names = () if SUMS.get(column) else (name for name, _ in _tres(column, text))
            yield from (f"{column} {name}" for name in names if not _COUNTED.fullmatch(name))
        elif column != WALL[0] and column not in elsewhere:
            yield column


def _tres(column: str, text: str) -> list[tuple[str, str]]:
    try:
        return list(parse_tres(text).items())
    except ValueError as error:
        raise ValueError(f"{column}: {error}") from None


def factor(column: str, text: str) -> float:
    """A number from 0 on. Raises ValueError, naming the column."""
    if not _FACTOR.fullmatch(text):
        raise ValueError(f"{column} is {text[:40]!r}: expected a number from 0 on")
    return float(text)


def number(what: str, text: str) -> int:
    """A whole number. Raises ValueError, naming the column."""
    if not _NUMBER.fullmatch(text):
        raise ValueError(f"{what} is {text[:40]!r}: expected a whole number from 0 on, or -1")
    return int(float(text))


def seconds(column: str, text: str) -> int:
    """The seconds of a time. Raises ValueError, naming the column."""
    try:
        minutes = parse_minutes(text)
    except ValueError as error:
        raise ValueError(f"{column}: {error}") from None
    if minutes is None:
        raise ValueError(f"{column} is {text[:40]!r}: expected a time such as 1-0")
    return round(minutes * 60)
