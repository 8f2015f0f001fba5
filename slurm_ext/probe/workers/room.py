"""Room for workers: as many as memory, and the place of batches on their way, still hold."""

from __future__ import annotations

import math

from ..counters import machine

MAX_WORKERS = 1024  # of a loader, whoever asks for them
MOST_TUNED = 64  # of a process, where nobody says how many
_SHARE = 0.8  # of the room that is left: batches under way need some, too
_GROWTH = 1.25  # workers grow as they touch the data
_SHARED_SHARE = 0.5  # of the room for batches on their way
_PREFETCHED = 2  # batches of one worker


def fitting(most: int, per_worker: int, private: int) -> int:
    """As many of `most` workers as memory holds; `private` is this process's own.

    Before one was measured (0), it may come to hold as much as this process does.
    """
    room = machine.room_bytes(private)
    each = per_worker or private
    return most if room is None or not each else min(most, int(room * _SHARE // each))


def ceiling(limit: int, own: int, now: int, per_worker: int, private: int) -> int:
    """Workers that may be open, `now` of them are; before one was measured, the user's or one."""
    room = machine.room_bytes(private + per_worker * now)
    if room is None:
        return limit
    if per_worker:
        return max(own, 1, now + int(room * _SHARE // per_worker))
    return max(own, 1)


def growing(have: int, per_worker: int, private: int, batch_bytes: float) -> float:
    """Workers in all that a pass may come to have beside the `have` that it has."""
    each = _GROWTH * (per_worker or private)
    room = machine.room_bytes(private + int(each * have))
    shared = machine.shared_room_bytes()
    batch = _PREFETCHED * batch_bytes
    bounds = [math.inf]
    if room is not None and each:
        bounds.append(have + int(room * _SHARE / each))
    if shared is not None and batch:
        bounds.append(have + int(shared * _SHARED_SHARE / batch))
    return min(bounds)


def lent(per_worker: int, private: int, batch_bytes: float, prefetch: int) -> int:
    """Lent workers more that fit; 0 before the memory of one was measured."""
    if not per_worker:
        return 0
    bounds = [float(MAX_WORKERS)]
    room, shared = machine.room_bytes(private), machine.shared_room_bytes()
    if room is not None:
        bounds.append(room * _SHARE / per_worker)
    if shared is not None and batch_bytes:
        bounds.append(shared * _SHARE / (batch_bytes * (2 * prefetch + 1)))
    return max(0, int(min(bounds)))
