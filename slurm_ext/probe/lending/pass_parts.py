"""A pass's totals apart: while lent workers were at work, and while the job's own cores made all.

A loop with lent workers is faster than its own cores can make it. So what they took part in is a
phase row of its own, and the rest teaches the loader's own curve as if there had been no loan.
"""

from __future__ import annotations

from typing import Any, Callable, Dict

Totals = Dict[str, Any]


class PassParts:
    """Sums of one pass, from totals that grow; `lent`: lent workers are at work now."""

    def __init__(self) -> None:
        self.lent = False
        self._sums: dict[bool, Totals] = {}
        self._begun: Totals = {}  # totals at the latest change

    def turn(self, lent: bool, totals: Callable[[], Totals]) -> None:
        """Begin another part if a loan has begun, or the last batch of one was delivered."""
        if lent != self.lent:
            now = totals()
            self._sums = self.all(now) if now["wall_s"] else {}
            self._begun, self.lent = now, lent

    def all(self, totals: Totals) -> dict[bool, Totals]:
        """The sums up to these totals: of the time with lent workers (True), and without."""
        part = {key: _since(value, self._begun.get(key)) for key, value in totals.items()}
        part["lent_s"] = part["wall_s"] if self.lent else 0.0
        if self._sums and not part["wall_s"]:
            return self._sums
        before = self._sums.get(self.lent, {})
        return {**self._sums, self.lent: {key: before.get(key, 0) + part[key] for key in part}}


def _since(now: Any, before: Any) -> Any:
    if before is None:
        return now
    return now.since(before) if hasattr(now, "since") else now - before
