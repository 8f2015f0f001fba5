"""Drift of a job away from its curve, by its measured windows. Pure.

A job has drifted when the moving average of its rate has been more than OFF away from the expected
one for WINDOWS windows in a row, each of which was itself off to the same side: one slow window
(a checkpoint, a validation) stays in an average for a while, and is no drift. Steps and step times
serve as well as rates. After a drift the curve is estimated again, from an empty state.
"""

from dataclasses import dataclass, replace
from math import isfinite
from typing import Literal

OFF = 0.10
WINDOWS = 3
NEWEST = 0.5  # weight of the newest window in the moving average

Verdict = Literal["steady", "drifted"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftState:
    """Expected rate of one job, and its last windows against it."""

    expected: float  # samples/s at what it has now; seconds per step do as well
    average: float | None = None
    windows_off: int = 0  # in a row; negative: below what is expected

    @property
    def verdict(self) -> Verdict:
        """Return "drifted" if the curve has to be estimated again, else "steady"."""
        return "drifted" if abs(self.windows_off) >= WINDOWS else "steady"


def update(state: DriftState, measured: float) -> DriftState:
    """Return the state after one more window; one without a measurement changes nothing."""
    if not (isfinite(measured) and measured > 0 and state.expected > 0):
        return state
    before = measured if state.average is None else state.average
    average = before + NEWEST * (measured - before)
    side = _side(average, state.expected)
    if side == 0 or side != _side(measured, state.expected):
        return replace(state, average=average, windows_off=0)
    in_a_row = state.windows_off if state.windows_off * side > 0 else 0
    return replace(state, average=average, windows_off=in_a_row + side)


def _side(value: float, expected: float) -> int:
    """1: above what is expected by more than OFF, -1: below, 0: near."""
    off = value / expected - 1
    return 0 if abs(off) <= OFF else (1 if off > 0 else -1)
