"""A recorded demand series: `demand-<pool>.csv`, a line a slot of ten minutes that ended.

Unix time of the slot's start, the highest need in it, nodes there. A slot without a line repeats
the one before, for at most a day; a longer gap starts a new series.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from slurm_ext.model.arrays import Array
from slurm_ext.model.demand.model import DAY, SLOT_S

LONGEST_GAP = DAY  # slots
TAIL_BYTES = 1 << 22
FOLDER, PREFIX = Path("control") / "energy", "demand-"  # below state_dir


def pool_file_name(pool: str) -> str:
    """A pool's name as part of a file name; "*" becomes "all"."""
    return "all" if pool == "*" else pool.replace("/", "_")


def series_path(folder: Path, pool: str) -> Path:
    """Path of a pool's series."""
    return folder / f"{PREFIX}{pool_file_name(pool)}.csv"


def read(path: Path, most_bytes: int = TAIL_BYTES) -> tuple[int, Array, Array]:
    """Return first slot, need and total by slot, after the last long gap; short gaps are filled.

    Skips malformed lines. Raises OSError.
    """
    rows: dict[int, tuple[float, float]] = {}
    for line in _lines(path, most_bytes):
        cells = line.split(",")
        if len(cells) == 3 and all(cell.isdecimal() for cell in cells):
            slot, needed, total = (int(cell) for cell in cells)
            rows[slot // SLOT_S] = (float(needed), float(total))
    return filled(rows)


def filled(rows: Mapping[int, tuple[float, float]]) -> tuple[int, Array, Array]:
    """Return the first slot, need and total by slot, with short gaps filled."""
    if not rows:
        return 0, np.zeros(0), np.zeros(0)
    values: list[tuple[float, float]] = []
    last = first = min(rows)
    for slot in sorted(rows):
        if values and slot - last > LONGEST_GAP:
            values, first = [], slot
        elif values:
            values += [values[-1]] * (slot - last - 1)
        else:
            first = slot
        values.append(rows[slot])
        last = slot
    both = np.array(values)
    return first, both[:, 0], both[:, 1]


def _lines(path: Path, most_bytes: int) -> Iterator[str]:
    with path.open("rb") as file:
        file.seek(0, os.SEEK_END)
        file.seek(max(0, file.tell() - most_bytes))
        yield from file.read(most_bytes).decode(errors="replace").splitlines()
