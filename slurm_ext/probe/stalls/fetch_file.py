"""A worker's totals and its histogram of fetches in a small mapped file, `fetch-<pid>`."""

from __future__ import annotations

import mmap
import os
import struct
from typing import Any

from . import fetch_times

_TOTALS = struct.Struct("=8d")
_SIZE = _TOTALS.size + fetch_times.SIZE
NOTHING = (0.0,) * 8, fetch_times.FetchTimes()


def path_of(run_dir: str, pid: int) -> str:
    """Path of a worker's file."""
    return os.path.join(run_dir, f"fetch-{pid}")


def mapped(path: str) -> mmap.mmap:
    """A new file of this form, mapped to be written. Raises OSError, ValueError."""
    handle = os.open(
        path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
    )
    try:
        os.ftruncate(handle, _SIZE)
        return mmap.mmap(handle, _SIZE)
    finally:
        os.close(handle)


def publish(
    target: Any, totals: tuple[float, ...], times: fetch_times.FetchTimes, place: int
) -> None:
    """Write the totals, and the one bin of the histogram that changed."""
    _TOTALS.pack_into(target, 0, *totals)
    times.publish(place, target, _TOTALS.size)


def read(path: str) -> tuple[tuple[float, ...], fetch_times.FetchTimes]:
    """A worker's totals and histogram; NOTHING if it has not fetched yet."""
    try:
        with open(path, "rb") as file:
            raw = file.read(_SIZE)
        return _TOTALS.unpack_from(raw), fetch_times.parse(raw[_TOTALS.size :])
    except (OSError, struct.error):
        return NOTHING


def read_totals(path: str) -> tuple[float, ...]:
    """A worker's totals alone."""
    return read(path)[0]
