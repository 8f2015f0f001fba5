"""Drift of a job away from its curve, by its measured windows. Pure.

A job has drifted when the moving average of its rate has been more than OFF away from what is
believed for WINDOWS windows on end, each of which was itself off to the same side: one slow window
(a checkpoint, a validation) lingers in an average, and is no drift. Steps and step times serve as
well as rates. After a drift the curve is estimated anew, and the watch begins again.
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
    windows_off: int = 0  # on end; negative: below what is expected

    @property
    def verdict(self) -> Verdict:
        """Return "drifted" if the curve has to be estimated again, else "steady"."""
        return "drifted" if abs(self.windows_off) >= WINDOWS else "steady"


def update(watch: DriftState, measured: float) -> DriftState:
    """The watch after one more window; one in which nothing was measured tells nothing."""
    if not (isfinite(measured) and measured > 0 and watch.expected > 0):
        return watch
    before = measured if watch.average is None else watch.average
    average = before + NEWEST * (measured - before)
    side = _side(average, watch.expected)
    if side == 0 or side != _side(measured, watch.expected):
        return replace(watch, average=average, windows_off=0)
    on_end = watch.windows_off if watch.windows_off * side > 0 else 0
    return replace(watch, average=average, windows_off=on_end + side)


def _side(value: float, expected: float) -> int:
    """1: above what is expected by more than OFF, -1: below, 0: near."""
    off = value / expected - 1
    return 0 if abs(off) <= OFF else (1 if off > 0 else -1)
