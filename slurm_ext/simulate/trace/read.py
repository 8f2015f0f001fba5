"""Reads a trace file, plain or gz, into columns. Nothing is dropped or changed without a count."""

import csv
import gzip
from array import array
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, tzinfo
from pathlib import Path
from sys import intern
from typing import TextIO

import numpy as np

from slurm_ext.core.errors import InputError, unreadable
from slurm_ext.simulate.trace.columns import COUNTS, NUMBERS, Trace
from slurm_ext.simulate.trace.formats import ALIASES, FORMATS, SWF_FIELDS, Format
from slurm_ext.simulate.trace.row import NO_GPU, Fields, TraceRow
from slurm_ext.simulate.trace.times import Clock

INSTANT = "ran for 0 s: replayed as 1 s"
UNSORTED = "not in order of submission: sorted"
PROGRESS_EVERY = 8192
Progress = Callable[[int], None]
Lines = Iterator[tuple[int, Fields]]


def read(
    path: Path,
    *,
    form: str | None = None,
    zone: tzinfo = UTC,
    cpus: bool = False,
    more: bool = False,
    progress: Progress = lambda _lines: None,
) -> Trace:
    """The trace. `form`: a name of FORMATS; None: recognised by the first line.

    `cpus`: replay CPUs instead of GPUs. `more`: keep further columns, too. `progress` is called now
    and then with the number of lines read. Raises InputError, naming the line and what is expected.
    """
    source = str(path)
    try:
        with _opened(path) as file:
            return _read(file, path, form, Clock(zone), Columns(source, cpus, more), progress)
    except (OSError, EOFError, UnicodeDecodeError, csv.Error) as error:
        raise unreadable(source, error) from None


def _opened(path: Path) -> TextIO:
    with path.open("rb") as file:
        zipped = file.read(2) == b"\x1f\x8b"
    if zipped:
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")


def _read(
    file: TextIO,
    path: Path,
    form: str | None,
    clock: Clock,
    columns: "Columns",
    progress: Progress,
) -> Trace:
    first, source = file.readline(), str(path)
    trace_format = FORMATS[form] if form else _recognised(first, source)
    lines = (
        _swf(file, first, source)
        if trace_format.name == "swf"
        else _csv(file, first, trace_format, source)
    )
    read_line, columns.form = trace_format.reader(path), trace_format
    for line, fields in lines:
        if line % PROGRESS_EVERY == 0:
            progress(line)
        try:
            columns.add(read_line(fields, clock), fields)
        except ValueError as error:
            raise InputError(source, str(error), line=line) from None
    return columns.trace()


def _recognised(first: str, source: str) -> Format:
    """The format of a first line."""
    for form in FORMATS.values():
        header = set(first.strip().split(form.delimiter))
        if form.any_of and all(header & set(group) for group in form.any_of):
            return form
    if first.startswith(";") or len(first.split()) == len(SWF_FIELDS):
        return FORMATS["swf"]
    raise InputError(
        source,
        f"the first line {first[:80].strip()!r} is of no format that is known"
        f" ({', '.join(FORMATS)}). A table wants: {_wanted(FORMATS['table'])}",
        line=1,
    )


def _wanted(form: Format) -> str:
    return ", ".join(" or ".join(group) for group in form.any_of)


def _csv(file: TextIO, first: str, form: Format, source: str) -> Lines:
    """Fields by column name and the number of their line."""
    header = [name.strip() for name in first.strip().split(form.delimiter)]
    missing = [" or ".join(group) for group in form.any_of if not set(group) & set(header)]
    if missing:
        raise InputError(source, f"no column {', '.join(missing)}; there are {header}", line=1)
    if form.name == "table":
        header = [ALIASES.get(name, name) for name in header]
    if len(set(header)) < len(header):
        raise InputError(source, f"two columns of one meaning: {header}", line=1)
    reader = csv.reader(file, delimiter=form.delimiter)
    for values in reader:
        line = reader.line_num + 1
        if not values:
            continue
        if len(values) != len(header):
            raise InputError(
                source, f"{len(values)} fields, expected {len(header)} as in line 1", line=line
            )
        yield line, dict(zip(header, values, strict=True))


def _swf(file: TextIO, first: str, source: str) -> Lines:
    """The same for lines of numbers between spaces; `;` begins a comment."""
    line, text = 1, first
    while text:
        values = text.split()
        if values and not text.startswith(";"):
            if len(values) != len(SWF_FIELDS):
                raise InputError(source, f"{len(values)} fields, expected 18 (SWF)", line=line)
            yield line, dict(zip(SWF_FIELDS, values, strict=True))
        line, text = line + 1, file.readline()


class Columns:
    """Grows by rows, checks each, and counts what it repairs."""

    form = FORMATS["table"]

    def __init__(self, source: str, cpus: bool, more: bool) -> None:
        self._source, self._cpus = source, cpus
        self._more: dict[str, list[str]] | None = {} if more else None
        self._jobs: dict[str, None] = {}
        self._numbers = {name: array("d") for name in NUMBERS}
        self._counts = {name: array("q") for name in COUNTS}
        self._names: dict[str, dict[str, int]] = {
            name: {} for name in ("user", "vc", "account", "gpu_type", "qos")
        }
        self._repairs: Counter[str] = Counter()

    def add(self, row: TraceRow | str, fields: Fields) -> None:
        """Take a job in. Raises ValueError where it cannot be one."""
        if isinstance(row, str):
            self._repairs[row] += 1
            return
        gpus = row.cpus if self._cpus else row.gpus
        if row.duration_s < 0:
            raise ValueError(f"job {row.job} ran for {row.duration_s:g} s: expected 0 or more")
        if row.job in self._jobs:
            raise ValueError(f"job {row.job} is there twice: expected every id once")
        if not gpus:
            self._repairs["left out: without CPUs" if self._cpus else NO_GPU] += 1
            return
        if row.note:
            self._repairs[row.note] += 1
        self._keep(row, gpus)
        if self._more is not None:
            for name, text in fields.items():
                if self.form.tells(name):
                    self._more.setdefault(name, []).append(intern(text))

    def _keep(self, row: TraceRow, gpus: int) -> None:
        if row.duration_s == 0:
            self._repairs[INSTANT] += 1
        submits = self._numbers["submit_s"]
        if submits and row.submit_s < submits[-1]:
            self._repairs[UNSORTED] += 1
        self._jobs[row.job] = None
        submits.append(row.submit_s)
        self._numbers["duration_s"].append(row.duration_s or 1.0)
        self._numbers["limit_s"].append(row.limit_s)
        self._numbers["estimate_s"].append(row.estimate_s)
        self._counts["gpus"].append(gpus)
        self._counts["cpus"].append(row.cpus)
        for column, numbers in self._names.items():
            self._counts[column].append(numbers.setdefault(getattr(row, column), len(numbers)))

    def trace(self) -> Trace:
        """All of it, by submission. Raises InputError where there is no job at all."""
        if not self._jobs:
            repairs = "; ".join(f"{count} {why}" for why, count in self._repairs.items())
            raise InputError(self._source, f"no job to replay ({repairs or 'no line'})")
        columns = {
            name: np.array(values)
            for group in (self._numbers, self._counts)
            for name, values in group.items()
        }
        order = np.argsort(columns["submit_s"], kind="stable")
        columns = {name: values[order] for name, values in columns.items()}
        first_s = float(columns["submit_s"][0])
        columns["submit_s"] -= first_s
        jobs = list(self._jobs)
        return Trace(
            source=self._source,
            job=tuple(jobs[index] for index in order.tolist()),
            users=tuple(self._names["user"]),
            vcs=tuple(self._names["vc"]),
            accounts=tuple(self._names["account"]),
            gpu_types=tuple(self._names["gpu_type"]),
            qoses=tuple(self._names["qos"]),
            first_s=first_s,
            more={
                name: np.array(texts, dtype=object)[order]
                for name, texts in (self._more or {}).items()
            },
            repairs=dict(self._repairs),
            **columns,
        )
