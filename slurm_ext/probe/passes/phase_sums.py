"""Passes of a loader added up into phases: the first epoch and the later ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Iterable

from ..stalls.phase_row import add
from .passed_over import Phase, Sums

if TYPE_CHECKING:
    from .one_pass import Pass


class PhaseSums:
    """Sums of passes that have ended; the latest one waits for steps that come after its end."""

    def __init__(self) -> None:
        self._closed: dict[Phase, dict[str, Any]] = {}
        self._aside_s = 0.0  # starts for passes without a step
        self._waiting: tuple[Pass, Sums, float] | None = None  # the latest, and its start

    def close(self, current: Pass, start_s: float) -> None:
        """A pass has ended, whose workers took so long to start."""
        self.settle()
        self._waiting = current, current.sums(), start_s

    def total_of(self, ended: Pass) -> dict[str, Any] | None:
        """Return the sums that an ended pass was added to, or will be."""
        if self._waiting is not None and self._waiting[0] is ended:
            return self._waiting[1][-1][2]
        return self._closed.get(ended.phase) if ended.phase else None

    def settle(self) -> None:
        """Add the latest pass: steps that its batches waited for may have come after its end."""
        self._aside_s += self._add_latest(self._closed)
        if self._waiting is not None:
            self._waiting[0].tail.close()
        self._waiting = None

    def _add_latest(self, phases: dict[Phase, dict[str, Any]]) -> float:
        """Add the latest pass; return the seconds of its start if it was no training."""
        if self._waiting is None:
            return 0.0
        current, sums, start_s = self._waiting
        sums = _with_tail(current, _with_late_steps(current, sums))
        self._add(phases, current, sums)
        return 0.0 if any(stepped for _, stepped, _ in sums) else start_s

    def _add(self, phases: dict[Phase, dict[str, Any]], current: Pass, sums: Sums) -> None:
        later = {stepped for name, _, stepped in self._closed if name == "first_epoch"}
        for lent, stepped, part in sums:
            current.phase = ("later" if stepped in later else "first_epoch"), lent, stepped
            add(phases.setdefault(current.phase, {}), part)

    def with_those(self, running: Iterable[Pass]) -> tuple[dict[Phase, dict[str, Any]], float]:
        """Return all phases, passes under way included, and seconds of starts without a step."""
        phases = {key: dict(total) for key, total in self._closed.items()}
        aside_s = self._aside_s + self._add_latest(phases)
        for current in running:
            self._add(phases, current, current.sums())
        return phases, aside_s


def place(phase: tuple[Phase, Any]) -> tuple[bool, str, bool]:
    """Order of the summary's phases: those of training last, and lent workers before none."""
    name, lent, stepped = phase[0]
    return stepped, name, not lent


def _with_late_steps(current: Pass, sums: Sums) -> Sums:
    """All of it is training if steps came after the pass's end; the first one is its own."""
    counted = sum([part["steps"] for _, _, part in sums])
    if current.steps <= counted or current.twin:
        return sums
    return [
        (lent, True, {**part, "steps": part["steps"] or int(not counted)}) for lent, _, part in sums
    ]


def _with_tail(current: Pass, sums: Sums) -> Sums:
    """The last part's step lasts until the device has done the pass, if it is training."""
    lent, stepped, part = sums[-1]
    left_s = current.tail.seconds() - current.late_s if stepped and part["steps"] else 0.0
    if left_s <= 0 or not part["wall_s"]:
        return sums
    longer = {name: part[name] + left_s for name in ("wall_s", "step_s")}
    longer["workers"] = part["workers"] * longer["wall_s"] / part["wall_s"]
    return [*sums[:-1], (lent, stepped, {**part, **longer})]
