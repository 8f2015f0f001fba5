"""NTUA's nginx beside noisy neighbours: rows, neighbours, and counters by column.

Used: Intel PCM's counters (means over the run; cores in order of their value, since the table does
not say which core is whose), requests offered, replicas, and the neighbours (the scheduler knows
them). Not used: latencies, throughput and error counts: they are the target or its consequence.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from contrib.bench.colocation.ntua.scenario_names import neighbours
from contrib.bench.colocation.tables import Cells, measured_cells, number, positive, read
from contrib.bench.common.arrays import Array, Marks

FILE = "ntua_nginx_pcm.csv.gz"
COLUMNS = (
    "FolderID",
    "Replicas",
    "Interference_Name",
    "Interference_Category",
    "offered_rps",
    "norm_perf_p99",
)
CORES, MOST_RATIO = 8, 50.0
_CORE = ("C0respct", "C6respct", "IPC", "L3MISS", "PhysIPC", "PhysIPCpct")
_SYSTEM = (
    "Pack_C0respct",
    "Pack_C6respct",
    "Skt0_C0respct",
    "Skt0_C1respct",
    "Skt0_C6respct",
    "SysCore_C0respct",
    "SysCore_C1respct",
    "SysCore_C6respct",
    "Sys_IPC",
    "Sys_L2MISS",
    "Sys_L3MISS",
    "Sys_PhysIPC",
    "Sys_PhysIPCpct",
    "Sys_READ",
    "Sys_WRITE",
)
NAMES = (
    *(f"mean_{name}" for name in _SYSTEM),
    *(f"mean_Core{core}_{name}" for name in _CORE for core in range(CORES)),
)


@dataclass(frozen=True, slots=True)
class Runs:
    """Runs by row. `beside`: neighbours of each of KINDS, NaN where the name does not tell."""

    speed: Array
    campaign: NDArray[np.str_]
    family: NDArray[np.str_]
    context: Array  # requests/s offered, replicas
    beside: Array
    raw: Array  # counters: NAMES, each core's in order of value
    plain: Array  # counters: NAMES as they are

    def __len__(self) -> int:
        return len(self.speed)

    @property
    def alone(self) -> Marks:
        """Nobody beside."""
        return np.asarray(self.beside.sum(axis=1) == 0)

    def take(self, rows: Marks) -> "Runs":
        """Only these rows."""
        return Runs(*(getattr(self, name)[rows] for name in self.__slots__))


def runs(folder: Path) -> tuple[Runs, list[str]]:
    """All usable rows of a folder's table. Raises InputError naming the file."""
    rows, skipped = read(folder / "cpu_coloc" / FILE, COLUMNS, _checked)
    plain = np.array(
        [[measured_cells(row, NAMES).get(name, np.nan) for name in NAMES] for row in rows]
    )
    plain = plain.reshape(len(rows), len(NAMES))
    campaign = np.array([row["FolderID"] for row in rows], dtype=np.str_)
    made = Runs(
        np.array([positive(row, "norm_perf_p99") for row in rows]),
        campaign,
        np.array([name.split("_")[0] for name in campaign], dtype=np.str_),
        np.array([[number(row, name) for name in ("offered_rps", "Replicas")] for row in rows]),
        np.array([neighbours(row) for row in rows]),
        _in_order(plain),
        plain,
    )
    return made, skipped


def relative(queries: Runs, everyone: Sequence[Runs]) -> Array:
    """Counters over the campaign's own without neighbours, at the same rate where there is one."""
    quiet = [runs.take(runs.alone) for runs in everyone]
    raw = np.concatenate([runs.raw for runs in quiet])
    campaign = np.concatenate([runs.campaign for runs in quiet])
    rate = np.concatenate([runs.context[:, 0] for runs in quiet])
    ratios = np.full_like(queries.raw, np.nan)
    for row, (name, offered) in enumerate(
        zip(queries.campaign, queries.context[:, 0], strict=True)
    ):
        near = (campaign == name) & (rate == offered)
        near = near if near.any() else campaign == name
        near = near if near.any() else rate == offered
        if near.any():
            base = _mean(raw[near])
            base = np.where(np.abs(base) > 1e-9, base, np.nan)
            ratios[row] = np.clip(queries.raw[row] / base, 0.0, MOST_RATIO)
    return ratios


def _checked(cells: Cells) -> Cells:
    for name in ("Replicas", "offered_rps", "norm_perf_p99"):
        positive(cells, name)
    measured_cells(cells, [name for name in NAMES if name in cells])
    return cells


def _in_order(plain: Array) -> Array:
    made = plain.copy()
    for at in range(len(_SYSTEM), len(NAMES), CORES):
        made[:, at : at + CORES] = np.sort(plain[:, at : at + CORES], axis=1)
    return made


def _mean(rows: Array) -> Array:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a counter that no run has stays unknown
        return np.asarray(np.nanmean(rows, axis=0))
