"""Targets of the whole table, and whether its rows reach them."""

from collections.abc import Sequence

from contrib.bench.campaign.row import RECOVERY_S, Row
from contrib.bench.common.program import Result, at_most, row


def wanted(rows: Sequence[Row]) -> list[Result]:
    """Nothing that harms in any row, and a soon recovery."""
    names = rows[0].harm if rows else {}
    harm = [at_most(name, 0, sum(one.harm[name] for one in rows)) for name in names]
    never = [one.fault for one in rows if one.recovery_s is None]
    slowest = max((one.recovery_s or 0 for one in rows), default=0.0)
    longest = sum(one.over_deadline for one in rows)
    soon = row(
        "seconds to recover",
        f"<= {RECOVERY_S:g}",
        never or slowest,
        met=not never and slowest <= RECOVERY_S,
    )
    return [*harm, at_most("calls beyond the deadline", 0, longest), soon]
