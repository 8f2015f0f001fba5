"""Published measurements of rate against a count of GPUs or threads, as series of counts.

A row with an empty, negative or unreadable cell is skipped, and listed by file and line; a rate of
0 means "not runnable" in these tables and is skipped in the same way.
"""

import csv
import gzip
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import isfinite, log, sqrt
from pathlib import Path
from statistics import median, stdev
from typing import TextIO

from slurm_ext.core.errors import InputError
from slurm_ext.model.scaling.speedup import CountMeasurement

KNOWN_COUNTS = (1, 2, 4)
WANTED_FROM = 8
# The standard error of a median of normal values is this much larger than that of their mean.
MEDIAN_OVER_MEAN = 1.2533

Row = Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One job on one kind of hardware at several counts.

    `job` is what is left out as a whole: a model or pipeline, with its hardware.
    """

    source: str
    kind: str
    job: str
    label: str
    batch: float
    points: tuple[CountMeasurement, ...]

    @property
    def known(self) -> list[CountMeasurement]:
        """Points that a predictor may use: the counts of KNOWN_COUNTS that are there."""
        return [point for point in self.points if point.count in KNOWN_COUNTS]

    @property
    def lacks(self) -> str | None:
        """Reason why nothing can be predicted of it, or None."""
        counts = {point.count for point in self.known}
        if self.kind == "threads" and not {2, 4} <= counts:
            return "2 and 4 threads were not both measured"
        return None if len(counts) > 1 else f"fewer than two of the counts {KNOWN_COUNTS}"

    @property
    def wanted(self) -> list[CountMeasurement]:
        """Points to be predicted."""
        return [point for point in self.points if point.count >= WANTED_FROM]


@dataclass(slots=True)
class Table:
    """The series of one file, and what of it was skipped and why."""

    series: list[Series] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)


def elasticflow(folder: Path) -> Table:
    """Iterations/s of a fixed global batch over A100 GPUs."""
    columns = ("model", "global_batch_size", "num_gpus", "iters_per_s")
    return read_table(folder / "elasticflow_a100.csv", columns, _elasticflow_key)


def gavel(folder: Path) -> Table:
    """Iterations/s, over all GPUs, of a fixed batch a GPU; consolidated or spread."""
    columns = ("gpu", "consolidated", "model", "batch_size", "num_gpus", "iters_per_s")
    return read_table(folder / "gavel_scaling.csv", columns, _gavel_key)


def presto(folder: Path) -> Table:
    """Speed-up of a preprocessing pipeline over threads, medians of repetitions.

    The speed-up of one thread is 1 by definition; how its repetitions spread is its uncertainty.
    """
    columns = ("pipeline", "strategy", "epoch", "threads", "speedup")
    table = read_table(folder / "presto_thread_scaling.csv", columns, _presto_key)
    table.series = [_from_one_thread(series) for series in table.series]
    return table


def _from_one_thread(series: Series) -> Series:
    spread = next((point.log_sd for point in series.points if point.count == 1), 0.0)
    others = tuple(point for point in series.points if point.count != 1)
    one_thread = CountMeasurement(count=1, rate=1.0, log_sd=spread)
    return replace(series, points=(one_thread, *others))


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """Identity of a row, and its rate."""

    source: str
    kind: str
    job: str
    label: str
    batch: float
    count: float
    rate: float


def _elasticflow_key(row: Row) -> Key:
    return Key(
        source="elasticflow",
        kind="gpus_split",
        job=f"elasticflow a100 {row['model']}",
        label=row["global_batch_size"],
        batch=float(row["global_batch_size"]),
        count=float(row["num_gpus"]),
        rate=float(row["iters_per_s"]),
    )


def _gavel_key(row: Row) -> Key:
    near = "consolidated" if float(row["consolidated"]) else "spread"
    return Key(
        source="gavel",
        kind=f"gpus_each_{near}",
        job=f"gavel {row['gpu']} {row['model']}",
        label=f"{row['batch_size']} {near}",
        batch=abs(float(row["batch_size"])),  # -1: the model has none
        count=float(row["num_gpus"]),
        rate=float(row["iters_per_s"]),
    )


def _presto_key(row: Row) -> Key:
    return Key(
        source="presto",
        kind="threads",
        job=f"presto {row['pipeline']}",
        label=f"{row['strategy']} epoch {row['epoch']}",
        batch=1.0,
        count=float(row["threads"]),
        rate=float(row["speedup"]),
    )


def read_table(path: Path, columns: tuple[str, ...], key_of: Callable[[Row], Key]) -> Table:
    """Rows of one job and count are repetitions of each other."""
    table = Table()
    groups: dict[tuple[str, str, str, str, float], dict[float, list[float]]] = {}
    for line, row in rows_of(path, columns):
        try:
            key = key_of(row)
            _check(key)
        except ValueError as error:
            table.skipped.append(f"{path.name}:{line}: {error}")
            continue
        group = groups.setdefault((key.source, key.kind, key.job, key.label, key.batch), {})
        group.setdefault(key.count, []).append(key.rate)
    table.series = [_series(names, counts) for names, counts in groups.items()]
    return table


def rows_of(path: Path, columns: tuple[str, ...]) -> Iterator[tuple[int, Row]]:
    """Rows with the lines they stand on. Raises InputError."""
    try:
        with _opened(path) as file:
            reader = csv.DictReader(file, restval="")
            absent = [name for name in columns if name not in (reader.fieldnames or ())]
            if absent:
                raise InputError(str(path), f"has no column {', '.join(absent)}")
            yield from enumerate(reader, 2)
    except (OSError, EOFError, zlib.error, UnicodeDecodeError, csv.Error) as error:
        raise InputError(str(path), f"cannot be read: {error}") from None


def _opened(path: Path) -> TextIO:
    return gzip.open(path, "rt", newline="") if path.suffix == ".gz" else path.open(newline="")


def _check(key: Key) -> None:
    if not (isfinite(key.count) and key.count >= 1):
        raise ValueError(f"a count of {key.count:g}: expected 1 or more")
    if key.rate == 0:
        raise ValueError("a rate of 0: not runnable")
    if not (isfinite(key.rate) and key.rate > 0):
        raise ValueError(f"a rate of {key.rate:g}: expected a positive number")
    if not (isfinite(key.batch) and key.batch > 0):
        raise ValueError(f"a batch of {key.batch:g}: expected a positive number")


def _series(names: tuple[str, str, str, str, float], counts: Mapping[float, list[float]]) -> Series:
    source, kind, job, label, batch = names
    points = tuple(_counted(count, counts[count]) for count in sorted(counts))
    return Series(source=source, kind=kind, job=job, label=label, batch=batch, points=points)


def _counted(count: float, rates: list[float]) -> CountMeasurement:
    """The median of repetitions, with its standard error where there are any."""
    if len(rates) < 2:
        return CountMeasurement(count=count, rate=rates[0])
    error = MEDIAN_OVER_MEAN * stdev([log(rate) for rate in rates]) / sqrt(len(rates))
    return CountMeasurement(count=count, rate=median(rates), log_sd=error)
