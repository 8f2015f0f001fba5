"""A worker's totals and its histogram of fetches in a small file, `fetch-<pid>`.

It is written, not mapped: on a full disk, or where somebody cut the file, a store into a map ends
the worker by a signal, and a write fails.
"""

from __future__ import annotations

import os
import struct

from . import fetch_times

_TOTALS = struct.Struct("=8d")
_SIZE = _TOTALS.size + fetch_times.SIZE
_NEW = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
NOTHING = (0.0,) * 8, fetch_times.FetchTimes()


def path_of(run_dir: str, pid: int) -> str:
    """Path of a worker's file."""
    return os.path.join(run_dir, f"fetch-{pid}")


class FetchFile:
    """A worker's own file, empty at first. Raises OSError."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, _NEW, 0o600)  # as long as the process lives
        status = os.fstat(self._file)
        self._inode, self._device = status.st_ino, status.st_dev
        self._record = bytearray(_SIZE)

    def publish(self, totals: tuple[float, ...], times: fetch_times.FetchTimes, place: int) -> None:
        """Write the totals, and the one bin that changed, in a single write. Raises OSError."""
        _TOTALS.pack_into(self._record, 0, *totals)
        times.publish(place, self._record, _TOTALS.size)
        status = os.fstat(self._file)
        # The job may have closed all files that it does not know; the number is another's then.
        if status.st_ino == self._inode and status.st_dev == self._device:
            os.pwrite(self._file, self._record, 0)


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
