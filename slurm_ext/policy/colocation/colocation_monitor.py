"""Monitor of jobs that share: those below their floor for long, or with more memory than requested.

Pure. Time counts, not windows: seconds below the floor add up, seconds well above it take as many
away, and in between nothing moves, so that a pair at its floor does not flap. A job is below after
PATIENCE_S such seconds in at least WINDOWS windows. Windows without a measurement count for
nothing.

Slow pairs are remembered by the jobs' solo keys, so that their next runs are kept apart: for a
week, twice as long each time it happens again. Then they get another chance, for programs change.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from math import isfinite
from typing import Any

PATIENCE_S = 60.0  # seconds below the floor until a pair is separated
WINDOWS = 3  # of them at least: one slow window is a checkpoint
MARGIN = 0.03  # of speed above the floor until seconds are taken away again
EXCEEDED = 1.10  # times the memory that was said
KEEP_S = 7 * 86400.0
KEEP_MOST_S = 90 * 86400.0
FORGET_S = 365 * 86400.0  # a cooldown that old is removed: the memory does not grow for ever


class CoLocationState(StrEnum):
    """State of a job beside others."""

    FINE = "at or above its floor"
    BELOW = "below its floor for a while"
    MEMORY_EXCEEDED = "takes more memory than it said"


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Measurements of a job since the last look; None: not measured."""

    seconds: float
    speed: float | None = None  # of its solo speed
    mem_bytes: float | None = None  # the most that it had


@dataclass(frozen=True, slots=True, kw_only=True)
class CoLocation:
    """One job while the same others are beside it; other ones begin a new state."""

    job: str
    floor: float
    requested_mem_bytes: float | None = None
    patience_s: float = PATIENCE_S
    below_s: float = 0.0
    windows_below: int = 0
    seen_s: float = 0.0
    worked: float = 0.0  # seconds of work alone that it has done since: seen_s x mean speed
    most_mem_bytes: float = 0.0

    @property
    def state(self) -> CoLocationState:
        """The verdict by now."""
        requested = self.requested_mem_bytes
        if requested is not None and self.most_mem_bytes > EXCEEDED * requested:
            return CoLocationState.MEMORY_EXCEEDED
        if self.below_s >= self.patience_s and self.windows_below >= WINDOWS:
            return CoLocationState.BELOW
        return CoLocationState.FINE

    @property
    def mean_speed(self) -> float | None:
        """Over everything seen; None: nothing was."""
        return self.worked / self.seen_s if self.seen_s > 0 else None


def update(colocation: CoLocation, window: Window) -> CoLocation:
    """Return the state after one more window."""
    if not (isfinite(window.seconds) and window.seconds > 0):
        return colocation
    colocation = _memory_seen(colocation, window.mem_bytes)
    speed = window.speed
    if speed is None or not isfinite(speed) or speed < 0:
        return colocation
    measured = replace(
        colocation,
        seen_s=colocation.seen_s + window.seconds,
        worked=colocation.worked + window.seconds * speed,
    )
    return _weighed(measured, window.seconds, speed)


def _memory_seen(colocation: CoLocation, mem_bytes: float | None) -> CoLocation:
    if mem_bytes is None or not isfinite(mem_bytes):
        return colocation
    return replace(colocation, most_mem_bytes=max(colocation.most_mem_bytes, mem_bytes))


def _weighed(colocation: CoLocation, seconds: float, speed: float) -> CoLocation:
    if speed < colocation.floor:
        return replace(
            colocation,
            below_s=colocation.below_s + seconds,
            windows_below=colocation.windows_below + 1,
        )
    if speed < colocation.floor + MARGIN:
        return colocation
    left_s = max(0.0, colocation.below_s - seconds)
    windows = colocation.windows_below if left_s > 0 else 0
    return replace(colocation, below_s=left_s, windows_below=windows)


@dataclass(frozen=True, slots=True)
class PairCooldown:
    """Last time that two jobs were too slow together, and how often."""

    last_s: float  # Unix
    times: int = 1

    def holds(self, now_s: float) -> bool:
        """True if they are still kept apart."""
        return now_s - self.last_s < min(KEEP_MOST_S, KEEP_S * 2.0 ** (self.times - 1))


PairCooldowns = Mapping[
    frozenset[str], PairCooldown
]  # by the solo keys of the pair; one key: twins


def cooldowns_as_json(cooldowns: PairCooldowns) -> list[list[Any]]:
    """`[[solo keys], last_s, times]` of each."""
    return sorted(
        [sorted(pair), cooldown.last_s, cooldown.times] for pair, cooldown in cooldowns.items()
    )


def cooldowns_from_json(rows: Iterable[Any]) -> dict[frozenset[str], PairCooldown]:
    """Read what cooldowns_as_json made. Raises ValueError or TypeError."""
    return {frozenset(keys): PairCooldown(float(last), int(times)) for keys, last, times in rows}


def add_cooldown(
    cooldowns: PairCooldowns, together: Iterable[str], now_s: float
) -> dict[frozenset[str], PairCooldown]:
    """Return the cooldowns with those of these solo keys, unless one of them is empty.

    What is older than FORGET_S is not in it any more.
    """
    keys = sorted(together)
    kept = {pair: one for pair, one in cooldowns.items() if now_s - one.last_s < FORGET_S}
    if len(keys) < 2 or not all(keys):
        return kept
    for index, one in enumerate(keys):
        for other in keys[index + 1 :]:
            pair = frozenset({one, other})
            times = kept[pair].times + 1 if pair in kept else 1
            kept[pair] = PairCooldown(last_s=now_s, times=times)
    return kept


def kept_apart(cooldowns: PairCooldowns, now_s: float) -> frozenset[frozenset[str]]:
    """The pairs that are not put together now."""
    return frozenset(pair for pair, cooldown in cooldowns.items() if cooldown.holds(now_s))
