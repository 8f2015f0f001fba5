"""Values of one QOS: numbers, times, TRES and flags, under each name that sacctmgr has."""

import re
from collections.abc import Iterator, Mapping

from slurm_ext.core.units import parse_minutes, parse_tres
from slurm_ext.simulate.limits.qos import DENY, OVER_PARTITION, SUMS, WALL, Limit, Qos

LONG = {
    "GrpSubmitJobs": "GrpSubmit",
    "MaxTRESPerJob": "MaxTRES",
    "MaxTRESPerUser": "MaxTRESPU",
    "MaxTRESPerAccount": "MaxTRESPA",
    "MaxJobsPerUser": "MaxJobsPU",
    "MaxJobsPerAccount": "MaxJobsPA",
    "MaxSubmitJobsPerUser": "MaxSubmitPU",
    "MaxSubmitJobsPU": "MaxSubmitPU",
    "MaxSubmitJobsPerAccount": "MaxSubmitPA",
    "MaxSubmitJobsPA": "MaxSubmitPA",
    "MaxWallDurationPerJob": "MaxWall",
    "MinTRESPerJob": "MinTRES",
}
"""Other names of columns, those of dumps among them."""

OF_A_JOB = ("MaxTRES", "MinTRES")
ELSEWHERE = ("Priority", "Flags", "Description", "ID", "PreemptMode", "PreemptExemptTime")
"""Columns that are read apart, or that decide nothing here: a replay preempts by QOS never."""

NOTHING: Mapping[str, tuple[float, ...]] = {"GraceTime": (0,), "UsageFactor": (1,)}
REPLAYED_FLAGS = {DENY, OVER_PARTITION, "nodecay"}
_COUNTED = re.compile(r"cpu|gres/gpu(:.+)?")
_NUMBER = re.compile(r"[0-9]{1,12}(\.0{1,9})?")


def qos_of(name: str, values: Mapping[str, str]) -> Qos:
    """One QOS of its columns. Raises ValueError, naming the column."""
    named = {LONG.get(column, column): text.strip() for column, text in values.items()}
    told = {column: text for column, text in named.items() if text not in ("", "-1")}
    flags = frozenset(flag.strip().lower() for flag in told.get("Flags", "").split(",") if flag)
    limits = dict(_limits(told))
    return Qos(
        name=name,
        priority=float(_number("Priority", told.get("Priority", "0"))),
        flags=flags,
        sums={limit: value for limit, value in limits.items() if limit[0] in SUMS},
        each={limit: value for limit, value in limits.items() if limit[0] not in SUMS},
        left_out=(*_left_out(told), *(f"flag {flag}" for flag in sorted(flags - REPLAYED_FLAGS))),
    )


def _limits(told: Mapping[str, str]) -> Iterator[tuple[Limit, int]]:
    """The limits that a replay keeps."""
    for column, text in told.items():
        if column == WALL[0]:
            yield WALL, _seconds(column, text)
        elif counted := SUMS.get(column):
            yield (column, counted), _number(column, text)
        elif column in SUMS or column in OF_A_JOB:
            for name, amount in _tres(column, text):
                if _COUNTED.fullmatch(name):
                    yield (column, name), _number(f"{column} {name}", amount)


def _left_out(told: Mapping[str, str]) -> Iterator[str]:
    """Columns that are set, may change who starts, and are not replayed."""
    for column, text in told.items():
        if column in SUMS or column in OF_A_JOB:
            names = () if SUMS.get(column) else (name for name, _ in _tres(column, text))
            yield from (f"{column} {name}" for name in names if not _COUNTED.fullmatch(name))
        elif column not in (*ELSEWHERE, WALL[0]) and not _says_nothing(column, text):
            yield column


def _says_nothing(column: str, text: str) -> bool:
    digits = text.replace(":", "")
    return _NUMBER.fullmatch(digits) is not None and float(digits) in NOTHING.get(column, ())


def _tres(column: str, text: str) -> list[tuple[str, str]]:
    try:
        return list(parse_tres(text).items())
    except ValueError as error:
        raise ValueError(f"{column}: {error}") from None


def _number(what: str, text: str) -> int:
    if not _NUMBER.fullmatch(text):
        raise ValueError(f"{what} is {text[:40]!r}: expected a whole number from 0 on, or -1")
    return int(float(text))


def _seconds(column: str, text: str) -> int:
    """Raises ValueError."""
    try:
        minutes = parse_minutes(text)
    except ValueError as error:
        raise ValueError(f"{column}: {error}") from None
    if minutes is None:
        raise ValueError(f"{column} is {text[:40]!r}: expected a time such as 1-0")
    return round(minutes * 60)
