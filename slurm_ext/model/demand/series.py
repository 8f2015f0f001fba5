"""A recorded demand series: `demand-<pool>.csv`, a line a slot of ten minutes that ended.

Unix time of the slot's start, the highest need in it, nodes there, and the id of the user whose
jobs wanted the most of them; without that cell, no job did, or nobody noted it. A slot without a
line repeats the one before, for at most a day; a longer gap starts a new series.

What is learned from a series is learned from all users alike: one user's slots have a share of it
(`weights_of`).
"""

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from slurm_ext.core.stats import POOL_USERS, fair_limit
from slurm_ext.model.arrays import Array
from slurm_ext.model.demand.model import DAY, SLOT_S

LONGEST_GAP = DAY  # slots
TAIL_BYTES = 1 << 22
CELLS = (3, 4)  # of a line
FOLDER, PREFIX = Path("control") / "energy", "demand-"  # below state_dir
NOBODY = -1  # in place of a user's id


@dataclass(frozen=True, eq=False, slots=True)
class RecordedDemand:
    """Slots without gaps."""

    first: int  # Unix time / SLOT_S
    need: Array
    total: Array
    users: Sequence[int]  # who wanted the most nodes

    @property
    def weights(self) -> Array:
        """Weight of each slot (`weights_of`)."""
        return weights_of(self.users)


def pool_file_name(pool: str) -> str:
    """A pool's name as part of a file name; "*" becomes "all"."""
    return "all" if pool == "*" else pool.replace("/", "_")


def series_path(folder: Path, pool: str) -> Path:
    """Path of a pool's series."""
    return folder / f"{PREFIX}{pool_file_name(pool)}.csv"


def read(path: Path, most_bytes: int = TAIL_BYTES) -> RecordedDemand:
    """Return the slots after the last long gap; short gaps are filled.

    Skips malformed lines. Raises OSError.
    """
    rows, users = dict[int, tuple[float, float]](), dict[int, int]()
    for line in _lines(path, most_bytes):
        cells = line.split(",")
        if len(cells) in CELLS and all(cell.isdecimal() for cell in cells):
            start_s, needed, total, *user = map(int, cells)
            rows[start_s // SLOT_S] = (float(needed), float(total))
            users[start_s // SLOT_S] = user[0] if user else NOBODY
    return series_of(rows, users)


def series_of(rows: Mapping[int, tuple[float, float]], users: Mapping[int, int]) -> RecordedDemand:
    """Return need, total and user by slot, with short gaps filled."""
    first, need, total = filled(rows)
    user, filled_users = NOBODY, list[int]()
    for slot in range(first, first + len(need)):
        user = users.get(slot, user)
        filled_users.append(user)
    return RecordedDemand(first, need, total, filled_users)


def weights_of(users: Sequence[int]) -> Array:
    """Return the slots' weights, 1 on average: no user has more than a share of 1 / POOL_USERS.

    With fewer users all slots count alike. Those of nobody, and of whoever wanted the most for less
    than a day, keep their share.
    """
    counts = {user: count for user, count in Counter(users).items() if count >= DAY}
    counts.pop(NOBODY, None)
    if len(counts) < POOL_USERS:
        return np.ones(len(users))
    most = fair_limit(counts.values())
    fair = {user: min(1.0, most / count) for user, count in counts.items()}
    usual = sum(fair[user] * count for user, count in counts.items()) / sum(counts.values())
    weights = np.array([fair.get(user, usual) for user in users])
    return np.asarray(weights / weights.mean())


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
