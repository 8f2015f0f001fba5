"""Growth that does not level off, in the rows of a soak.

A figure that has no reason to grow is held to its second half: it rises there by Mann's and
Kendall's test, and by more than GROWTH of itself by Theil's and Sen's slope. What grows with the
records (history, the advisor's memory) is held to its growth for each record: the last third's
against the middle one's. Journals have a bound.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations
from math import erf, sqrt
from statistics import median
from typing import Any

from slurm_ext.advisor.pipeline.journal import ROTATE_BYTES

LEAST = 12  # rows: fewer say nothing
GROWTH = 0.03  # of itself, over the second half
FASTER = 1.25  # a record's growth, last third against middle one
SURE = 0.01
MOST = 200  # rows that are compared, evenly drawn
PER_RECORD = ("history_mib", "advisor_mib")
BOUNDED = {"journal_mib": 2 * ROTATE_BYTES / 2**20}  # a new one is begun, the old one deleted
IDLE = ("t_s", "records", "backlog", "rate", "held_back", "training_mib", "training_fds")
_TIMES = ("_cores", "_queued")  # such figures, like those above, follow the rate
Row = Mapping[str, Any]


def findings(rows: Sequence[Row]) -> dict[str, dict[str, Any]]:
    """A verdict on each figure: `grows` is a finding, None where there are too few rows."""
    names = sorted({name for row in rows for name in row if not name.endswith(_TIMES)} - set(IDLE))
    return {name: _verdict(name, [row for row in rows if name in row]) for name in names}


def _verdict(name: str, rows: Sequence[Row]) -> dict[str, Any]:
    if len(rows) < LEAST:
        return {"grows": None, "why": f"{len(rows)} rows"}
    if name in BOUNDED:
        return {"grows": rows[-1][name] > BOUNDED[name], "bound": BOUNDED[name]}
    if name in PER_RECORD:
        return _per_record(name, rows)
    half = _drawn(rows[len(rows) // 2 :])
    values = [float(row[name]) for row in half]
    times = [float(row["t_s"]) for row in half]
    rise = slope(times, values) * (times[-1] - times[0]) / max(abs(median(values)), 1e-9)
    chance = rising(values)
    return {"grows": rise > GROWTH and chance < SURE, "rise": rise, "chance": chance}


def _per_record(name: str, rows: Sequence[Row]) -> dict[str, Any]:
    """Slopes by record of the middle and the last third."""
    third = len(rows) // 3
    middle, last = (
        slope([float(row["records"]) for row in part], [float(row[name]) for row in part])
        for part in (_drawn(rows[third : 2 * third]), _drawn(rows[2 * third :]))
    )
    bytes_each = last * 2**20
    grows = bytes_each > 100 and last > FASTER * max(middle, 0.0)
    return {"grows": grows, "bytes_each": bytes_each, "bytes_before": middle * 2**20}


def slope(times: Sequence[float], values: Sequence[float]) -> float:
    """The median slope over all pairs (Theil, 1950; Sen, 1968)."""
    points = list(zip(times, values, strict=True))
    slopes = [(y1 - y0) / (x1 - x0) for (x0, y0), (x1, y1) in combinations(points, 2) if x1 > x0]
    return median(slopes) if slopes else 0.0


def rising(values: Sequence[float]) -> float:
    """The chance of so many rises among values without a trend (Mann, 1945; Kendall, 1975)."""
    count = len(values)
    rises = sum((b > a) - (b < a) for a, b in combinations(values, 2))
    spread = sqrt(count * (count - 1) * (2 * count + 5) / 18)
    return 0.5 * (1 - erf((rises - 1) / spread / sqrt(2)))


def _drawn(rows: Sequence[Row]) -> Sequence[Row]:
    step = -(-len(rows) // MOST)
    return rows[::step]
