"""Reads `pollux_sia_steptime.csv.gz`: measured steps of trainings by cluster, layout and batch.

A row that cannot be used (empty, negative, not a number, a placement that is not its GPUs) is left
out and listed by file and line. `dgx-ext` is a second measurement of cluster `dgx` (README of the
tables): for training both count as one cluster, the site before the hyphen.
"""

import csv
import gzip
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import isfinite
from pathlib import Path

from slurm_ext.core.errors import InputError
from slurm_ext.model.scaling.model import ScalingMeasurement, TrainingConfig
from slurm_ext.training.scaling.rows import ScalingRow

NAME = "pollux_sia_steptime.csv.gz"
COLUMNS = ("model", "cluster", "placement", "num_nodes", "num_gpus", "local_bsz", "samples_per_s")


@dataclass(frozen=True, slots=True)
class Table:
    """The usable rows, and what was said of the others."""

    rows: list[ScalingRow]
    skipped: list[str]


def site(cluster: str) -> str:
    """The cluster that a measurement was made on."""
    return cluster.split("-", maxsplit=1)[0]


def read(folder: Path) -> Table:
    """Raises InputError where the file is absent, has other columns or no usable row."""
    path = folder / NAME
    table = Table([], [])
    for line, cells in lines_of(path):
        try:
            table.rows.append(_row(cells))
        except (InputError, ValueError) as error:
            table.skipped.append(f"{path}:{line}: left out: {error}")
    if not table.rows:
        raise InputError(str(path), "holds no usable row")
    return table


def lines_of(path: Path) -> Iterator[tuple[int, Mapping[str, str]]]:
    """Every row with its line. Raises InputError."""
    try:
        with gzip.open(path, "rt", newline="") as file:
            reader = csv.DictReader(file)
            lacking = set(COLUMNS) - set(reader.fieldnames or ())
            if lacking:
                raise InputError(str(path), f"lacks columns {', '.join(sorted(lacking))}", line=1)
            for cells in reader:
                yield reader.line_num, cells
    except (OSError, EOFError, zlib.error, UnicodeDecodeError, csv.Error) as error:
        raise InputError(str(path), f"cannot be read: {error}") from None


def _row(cells: Mapping[str, str]) -> ScalingRow:
    if None in cells or None in cells.values():
        raise ValueError("has another number of cells than the first line")
    config = TrainingConfig(
        gpus=_count(cells, "num_gpus"),
        nodes=_count(cells, "num_nodes"),
        local_batch=_positive(cells, "local_bsz"),
        placement=_placement(cells),
    )
    measured = ScalingMeasurement(config=config, samples_per_s=_positive(cells, "samples_per_s"))
    return ScalingRow(model=cells["model"], cluster=cells["cluster"], measured=measured)


def _placement(cells: Mapping[str, str]) -> tuple[int, ...] | None:
    """One digit a node; empty in the tables of many nodes."""
    text = cells["placement"].strip()
    if not text:
        if _count(cells, "num_nodes") > _count(cells, "num_gpus"):
            raise ValueError(f"num_nodes {cells['num_nodes']} > num_gpus {cells['num_gpus']}")
        return None
    layout = tuple(int(digit) for digit in text)
    if (sum(layout), len(layout)) != (_count(cells, "num_gpus"), _count(cells, "num_nodes")):
        raise ValueError(f"placement {text} is not num_gpus on num_nodes")
    if min(layout) < 1:
        raise ValueError(f"placement {text} has a node without a GPU")
    return layout


def _count(cells: Mapping[str, str], column: str) -> int:
    value = _positive(cells, column)
    if value != int(value):
        raise ValueError(f"{column} = {cells[column]!r}: expected a whole number")
    return int(value)


def _positive(cells: Mapping[str, str], column: str) -> float:
    try:
        value = float(cells[column])
    except ValueError:
        raise ValueError(f"{column} = {cells[column]!r}: expected a number") from None
    if not (isfinite(value) and value > 0):
        raise ValueError(f"{column} = {cells[column]!r}: expected above 0")
    return value
