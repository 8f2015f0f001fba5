"""Room for workers: as many as memory, and the place of batches on their way, still hold."""

from __future__ import annotations

import math

from ..counters import machine
from .load import Load

MAX_WORKERS = 1024  # of a loader, whoever asks for them
MOST_TUNED = 64  # of a process, where nobody says how many
_SHARE = 0.8  # of the room that is left: batches under way need some, too
_GROWTH = 1.25  # workers grow as they touch the data
_SHARED_SHARE = 0.5  # of the room for batches on their way, and of the tasks that may start
_TASKS = 5  # of a worker: its process, the threads that send its batches, ours that asks for them


def fitting(most: int, per_worker: int, private: int) -> int:
    """As many of `most` workers as memory holds; `private` is this process's own.

    Before one was measured (0), it may come to hold as much as this process does.
    """
    room = machine.room_bytes(private)
    each = per_worker or private
    return most if room is None or not each else min(most, int(room * _SHARE // each))


def startable() -> float:
    """Workers more that may start, by the number of the job's processes and threads.

    A worker that lacks a thread ends the training, and so does the training's own thread.
    """
    left = machine.tasks_left()
    return math.inf if left is None else left * _SHARED_SHARE // _TASKS


def ceiling(limit: int, own: int, now: int, per_worker: int, private: int, load: Load) -> int:
    """Workers that may be open, `now` of them are; before one was measured, the user's or one."""
    room = machine.room_bytes(private + per_worker * now)
    fits = float(limit)
    if room is not None:
        fits = now + room * _SHARE // per_worker if per_worker else 0.0
    return min(limit, max(own, 1, int(min(fits, carried(now, load)))))


def growing(have: int, own: int, per_worker: int, private: int, load: Load) -> float:
    """Workers in all that a pass may come to have beside the `have` that it has."""
    each = _GROWTH * (per_worker or private)
    room = machine.room_bytes(private + int(each * have))
    bounds = [have + startable(), max(own, carried(have, load))]
    if room is not None and each:
        bounds.append(have + int(room * _SHARE / each))
    return min(bounds)


def carried(now: int, load: Load) -> float:
    """Workers whose batches find room on their way; `now` of them work, and may hold theirs.

    Nobody knows how much of the room that is: those stay while it would hold as many once more.
    """
    left = _batches(load) / load.prefetch
    return max(left * _SHARED_SHARE, min(now, left))


def _batches(load: Load) -> float:
    """Batches that /dev/shm, and the files that this process may open, hold beside the present."""
    asked = ((load.batch_bytes, machine.shared_room_bytes), (load.files, machine.files_left))
    found = [(each, room()) for each, room in asked if each]
    return min([left / each for each, left in found if left is not None], default=math.inf)


def lent(per_worker: int, private: int, load: Load) -> int:
    """Lent workers more that fit; 0 before the memory of one was measured."""
    if not per_worker:
        return 0
    batches = _batches(load) * _SHARE / (2 * load.prefetch + 1)
    bounds = [float(MAX_WORKERS), startable(), batches]
    room = machine.room_bytes(private)
    if room is not None:
        bounds.append(room * _SHARE / per_worker)
    return max(0, int(min(bounds)))
