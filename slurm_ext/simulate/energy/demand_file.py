"""A demand series from a file: a line a slot of ten minutes, Unix time, nodes needed, nodes there.

The energy loop records such files (`demand-POOL.csv` below the state folder). A header line may
come first; a fourth cell is the user who wanted the most nodes, which no replay needs.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from slurm_ext.core.errors import InputError, unreadable
from slurm_ext.model.arrays import Array
from slurm_ext.model.demand.model import SLOT_S
from slurm_ext.model.demand.series import CELLS, LONGEST_GAP, filled
from slurm_ext.simulate.trace.columns import MOST as MOST_NODES

EXPECTED = "expected Unix time, nodes needed, nodes there, as whole numbers"


@dataclass(frozen=True, slots=True, kw_only=True)
class DemandRecord:
    """Slots without gaps; `repairs` counts what was changed or left out."""

    source: str
    first_slot: int  # Unix time / SLOT_S
    need: Array  # never more than there are
    total: Array
    repairs: Mapping[str, int]


def read_demand(path: Path) -> DemandRecord:
    """The last piece of a file without a gap of a day. Raises InputError, naming the line."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise unreadable(str(path), error) from None
    rows: dict[int, tuple[float, float]] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip() or (number == 1 and not line[:1].isdecimal()):
            continue
        slot, need, total = _row(path, number, line)
        if slot in rows:
            raise InputError(str(path), "a slot of ten minutes has a second line", line=number)
        rows[slot] = (need, total)
    if not rows:
        raise InputError(str(path), f"no slot to replay: {EXPECTED}")
    return _record(path, rows)


def _row(path: Path, number: int, line: str) -> tuple[int, float, float]:
    cells = [cell.strip() for cell in line.split(",")]
    if len(cells) not in CELLS or not all(cell.isascii() and cell.isdecimal() for cell in cells):
        raise InputError(str(path), f"{line[:60]!r}: {EXPECTED}", line=number)
    start_s, need, total = map(int, cells[:3])
    if total > MOST_NODES:
        raise InputError(str(path), f"{total} nodes: {MOST_NODES} at most", line=number)
    return start_s // SLOT_S, float(need), float(total)


def _record(path: Path, rows: Mapping[int, tuple[float, float]]) -> DemandRecord:
    first_slot, need, total = filled(rows)
    if not total.any():
        raise InputError(str(path), "no node was there in any slot")
    kept = sum(slot >= first_slot for slot in rows)
    over = int((need > total).sum())
    repairs = {
        f"before a gap of {LONGEST_GAP} slots: left out": len(rows) - kept,
        "without a line: as the slot before": len(need) - kept,
        "more nodes needed than there: as many as there": over,
    }
    return DemandRecord(
        source=str(path),
        first_slot=first_slot,
        need=need.clip(max=total),
        total=total,
        repairs={why: slots for why, slots in repairs.items() if slots},
    )
