"""Reads the tables of job durations: submissions with names and numbers, and how each ended.

A row that cannot be used (a time or a duration that is no number, below 0, or not finite) is left
out and listed by file and line. Rows are sorted by submission. A censored row still ran when the
table was cut: its duration is only its age then.
"""

import csv
import gzip
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from math import isfinite, log
from pathlib import Path

from slurm_ext.core.errors import InputError
from slurm_ext.model.duration.state import FeaturePlan, JobFeatures


@dataclass(frozen=True, slots=True)
class Job:
    """`duration_s` counts from submission: the tables know no start (NASA's submission is one)."""

    job: str
    asked: JobFeatures
    duration_s: float
    censored: bool

    @property
    def end_s(self) -> float:
        """The earliest moment at which the duration can have been known."""
        return self.asked.submit_s + self.duration_s


@dataclass(frozen=True, slots=True)
class Table:
    """One published table: its file, its columns, the keys of its history."""

    name: str
    file: str
    submit: str
    names: tuple[str, ...]
    numbers: tuple[str, ...]
    plan: FeaturePlan
    qssf: tuple[tuple[str, ...], ...]  # the levels of Helios's rolling estimator
    requested: str | None = None
    retrain_s: float = 7 * 86400.0


def _plan(levels: str, *numbers: str) -> FeaturePlan:
    return FeaturePlan(tuple(tuple(level.split()) for level in levels.split(",")), numbers)


PHILLY = Table(
    "philly",
    "philly_jobs.csv.gz",
    "submit_time",
    ("vc", "num_gpus"),
    ("num_gpus",),
    _plan("vc num_gpus,vc,num_gpus,", "num_gpus"),
    (("vc", "num_gpus"), ("vc",), ()),
)
NASA = Table(
    "nasa",
    "nasa_ipsc.csv.gz",
    "submit_s",
    ("user", "group", "exe", "procs"),
    ("procs",),
    _plan("user exe procs,user exe,exe procs,exe,user procs,user,group,procs,", "procs"),
    (("user", "exe", "procs"), ("user", "exe"), ("exe",), ("user",), ()),
)
LCG = Table(
    "lcg",
    "lcg.csv.gz",
    "submit_s",
    ("user", "group", "partition", "req_time_s"),
    ("req_time_s",),
    _plan(
        "user req_time_s partition,user req_time_s,user partition,user,group,req_time_s,",
        "req_time_s",
    ),
    (("user", "req_time_s"), ("user",), ()),
    requested="req_time_s",
    retrain_s=2 * 86400.0,
)
TABLES = (PHILLY, NASA, LCG)


@dataclass(frozen=True, slots=True)
class Read:
    """Usable jobs by submission, and what was said of the other rows."""

    jobs: list[Job]
    skipped: list[str]


def read(folder: Path, table: Table) -> Read:
    """Raises InputError where the file is absent, has other columns or no usable row."""
    path, read = folder / table.file, Read([], [])
    wanted = {"job", "duration_s", "censored", table.submit, *table.names, *table.numbers}
    try:
        with gzip.open(path, "rt", newline="") as file:
            reader = csv.DictReader(file)
            lacking = wanted - set(reader.fieldnames or ())
            if lacking:
                raise InputError(str(path), f"lacks columns {', '.join(sorted(lacking))}", line=1)
            for cells in reader:
                _take(read, table, cells, f"{path}:{reader.line_num}")
    except (OSError, EOFError, zlib.error, UnicodeDecodeError, csv.Error) as error:
        raise InputError(str(path), f"cannot be read: {error}") from None
    if not read.jobs:
        raise InputError(str(path), "holds no usable row")
    read.jobs.sort(key=lambda job: job.asked.submit_s)
    return read


def _take(read: Read, table: Table, cells: Mapping[str, str], where: str) -> None:
    try:
        read.jobs.append(_job(table, cells))
    except (ValueError, TypeError) as error:
        read.skipped.append(f"{where}: left out: {error}")


def _job(table: Table, cells: Mapping[str, str]) -> Job:
    when: Callable[[str], float] = _stamp if table.submit == "submit_time" else float
    duration_s, submit_s = float(cells["duration_s"]), when(cells[table.submit])
    if not (isfinite(duration_s) and duration_s >= 0):
        raise ValueError(f"duration_s = {cells['duration_s']!r}: expected 0 or above")
    if not isfinite(submit_s):
        raise ValueError(f"{table.submit} = {cells[table.submit]!r}: expected a time")
    numbers = {name: _log(cells[name]) for name in table.numbers}
    names = {name: cells[name] for name in table.names}
    asked = JobFeatures(submit_s=submit_s, names=names, numbers=numbers)
    return Job(cells["job"], asked, duration_s, censored=float(cells["censored"] or 0) != 0)


def _log(cell: str) -> float | None:
    """Logarithm of a cell; a published -1 or 0 is a missing value."""
    value = float(cell)
    return log(value) if isfinite(value) and value > 0 else None


def _stamp(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()
