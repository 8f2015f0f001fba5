"""Reads the tables of jobs that shared a GPU or a node; only what can be trusted is kept.

A file may be plain or gzip, by its name. Every reader raises InputError, naming the file, where it
is absent, torn or lacks columns; a bad row is left out and told by file and line.
"""

import csv
import gzip
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import TypeVar

from slurm_ext.core.errors import InputError

Row = TypeVar("Row")
Cells = Mapping[str, str]


def same(train: Path, test: Path) -> bool:
    """Both are one folder: the protocols then leave whole families out of it (development)."""
    return train.resolve() == test.resolve()


def read(
    path: Path, columns: Sequence[str], row: Callable[[Cells], Row | None]
) -> tuple[list[Row], list[str]]:
    """Rows that `row` makes of the lines (None: left out silently), and the lines left out.

    `row` raises ValueError or InputError for a line that cannot be used.
    """
    rows: list[Row] = []
    skipped: list[str] = []
    for line, cells in _lines(path, columns):
        try:
            if None in cells or None in cells.values():
                raise ValueError("has another number of cells than the first line")
            made = row(cells)
        except (InputError, ValueError) as error:
            skipped.append(f"{path}:{line}: left out: {error}")
            continue
        if made is not None:
            rows.append(made)
    return rows, skipped


def number(cells: Cells, column: str) -> float:
    """A finite number. Raises ValueError naming the column."""
    try:
        value = float(cells[column])
    except ValueError:
        raise ValueError(f"{column} = {cells[column]!r}: expected a number") from None
    if not isfinite(value):
        raise ValueError(f"{column} = {cells[column]!r}: expected a finite number")
    return value


def positive(cells: Cells, column: str) -> float:
    """A finite number above 0. Raises ValueError naming the column."""
    value = number(cells, column)
    if value <= 0:
        raise ValueError(f"{column} = {cells[column]!r}: expected above 0")
    return value


def measured_cells(cells: Cells, columns: Sequence[str]) -> dict[str, float]:
    """The columns that hold a number; an empty cell is not measured and so is absent."""
    return {name: number(cells, name) for name in columns if (cells.get(name) or "").strip()}


def _lines(path: Path, columns: Sequence[str]) -> Iterator[tuple[int, Cells]]:
    opened = gzip.open if path.suffix == ".gz" else open
    try:
        with opened(path, "rt", newline="") as file:
            reader = csv.DictReader(file)
            lacking = set(columns) - set(reader.fieldnames or ())
            if lacking:
                raise InputError(str(path), f"lacks columns {', '.join(sorted(lacking))}", line=1)
            for cells in reader:
                yield reader.line_num, cells
    except FileNotFoundError:
        raise InputError(str(path), "is not there") from None
    except (OSError, EOFError, zlib.error, UnicodeDecodeError, csv.Error) as error:
        raise InputError(str(path), f"cannot be read: {error}") from None
