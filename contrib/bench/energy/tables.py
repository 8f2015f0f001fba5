"""Reads demand tables as series of ten-minute slots without gaps; repairs are listed.

Philly: nodes in use and nodes present, by minute; a slot has the highest of its minutes, and a
slot without a row repeats the one before. Venus: GPUs that started and ended, by slot; the level
is the first table's, carried on into the second. A node of Venus has 8 GPUs, and there are 133
nodes. The table does not say where jobs ran, so the number of needed nodes is a lower bound.
"""

import csv
import gzip
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import isfinite
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from contrib.bench.common.arrays import Array
from slurm_ext.core.errors import InputError
from slurm_ext.model.demand.model import SLOT_S

VENUS_NODES, VENUS_GPUS = 133, 8


@dataclass(frozen=True, slots=True)
class Demand:
    """One cluster: demand in its own unit (`unit` a node), from the first slot (Unix time/600)."""

    name: str
    first_slot: int
    split: int  # slots before it are known, those from it on are judged
    demand: Array
    unit: int
    total: NDArray[np.int64]
    told: list[str] = field(default_factory=list)

    @property
    def need(self) -> NDArray[np.int64]:
        """Nodes, and never more than there are."""
        nodes = np.ceil(self.demand / self.unit).astype(np.int64)
        return np.minimum(nodes, self.total)


Row = tuple[int, tuple[float, ...], str]  # slot, numbers, where


def rows_of(path: Path, columns: tuple[str, ...]) -> list[Row]:
    """Rows of a table, sorted by time. Raises InputError naming file and line."""
    try:
        with gzip.open(path, "rt", newline="") as file:
            reader = csv.DictReader(file)
            lacking = {"time", *columns} - set(reader.fieldnames or ())
            if lacking:
                raise InputError(str(path), f"lacks columns {', '.join(sorted(lacking))}", line=1)
            rows = [_row(cells, columns, path, reader.line_num) for cells in reader]
    except (OSError, EOFError, zlib.error, UnicodeDecodeError, csv.Error) as error:
        raise InputError(str(path), f"cannot be read: {error}") from None
    if not rows:
        raise InputError(str(path), "holds no row")
    return sorted(rows, key=lambda row: row[0])


def _row(cells: dict[str, str], columns: tuple[str, ...], path: Path, line: int) -> Row:
    try:
        when = datetime.fromisoformat(cells["time"])
        when = when if when.tzinfo else when.replace(tzinfo=UTC)
        numbers = tuple(float(cells[name]) for name in columns)
    except (ValueError, TypeError):
        problem = f"expected a time and numbers in {', '.join(columns)}"
        raise InputError(str(path), problem, line=line) from None
    if not all(isfinite(number) and number >= 0 for number in numbers):
        raise InputError(str(path), f"expected 0 or above in {', '.join(columns)}", line=line)
    return int(when.timestamp()) // SLOT_S, numbers, f"{path}:{line}"


def philly(train: Path, test: Path) -> Demand:
    """Philly's nodes. Raises InputError."""
    file, columns = "philly_active_nodes_1min.csv.gz", ("active_nodes", "total_nodes")
    rows, split = _joined(train / file, test / file, columns, days=14)
    first = rows[0][0]
    slots = np.full((rows[-1][0] - first + 1, 2), -1.0)
    for slot, numbers, _ in rows:
        slots[slot - first] = np.maximum(slots[slot - first], numbers)
    repairs = _fill(slots, "philly")
    above = int((slots[:, 0] > slots[:, 1]).sum())
    if above:
        repairs.append(f"philly: {above} slots with more active than there are: cut")
    total = slots[:, 1].astype(np.int64)
    demand = np.minimum(slots[:, 0], slots[:, 1])
    return Demand("philly", first, split - first, demand, 1, total, repairs)


def venus(train: Path, test: Path) -> Demand:
    """Venus's GPUs. Raises InputError."""
    file = "venus_throughput_10min.csv.gz"
    columns = ("net_running_gpus_rel", "start_gpu_num", "end_gpu_num")
    rows, split = _joined(train / file, test / file, columns, days=30)
    first = rows[0][0]
    level = np.full((rows[-1][0] - first + 1, 1), -1.0)
    running = rows[0][1][0]
    level[0] = running
    for slot, (_, starts, ends), _ in rows[1:]:
        running += starts - ends
        level[slot - first] = running
    repairs = _fill(level[:, :1], "venus")
    last = rows[-1][1][0]
    if abs(running - last) > 0.5:
        repairs.append(
            f"venus: the level is carried on, {running - last:+.0f} GPUs from the table's"
        )
    demand = np.maximum(level[:, 0], 0.0)
    total = np.full(len(demand), VENUS_NODES, dtype=np.int64)
    return Demand("venus", first, split - first, demand, VENUS_GPUS, total, repairs)


TABLES: tuple[Callable[[Path, Path], Demand], ...] = (philly, venus)


def _joined(
    train: Path, test: Path, columns: tuple[str, ...], *, days: int
) -> tuple[list[Row], int]:
    """All rows, and the slot that starts the test: its file's, or where it is one file, the end."""
    known = rows_of(train, columns)
    if train.resolve() == test.resolve():
        return known, known[-1][0] + 1 - days * 86400 // SLOT_S
    later = rows_of(test, columns)
    if later[0][0] <= known[-1][0]:
        raise InputError(later[0][2], f"begins before {train} ends: a test is later")
    return known + later, later[0][0]


def _fill(slots: Array, name: str) -> list[str]:
    """Slots without a row (below 0) become as the one before; what to say of it."""
    empty = np.flatnonzero(slots[:, 0] < 0)
    for slot in empty:
        slots[slot] = slots[slot - 1]
    return [f"{name}: {len(empty)} slots without a row are as before"] if len(empty) else []
