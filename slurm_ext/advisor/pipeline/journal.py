"""Durable queue from server to history writer: one JSON line a proposal, in a folder.

The folder is <state_dir>/journal/. The server appends with one write and no fsync, because
slurmctld waits meanwhile. The history writer reads by offset (history/ingest/journal.py), so that
every line is entered once.
"""

import os
import time
from pathlib import Path

from slurm_ext.history.ingest.proposals import MAX_LINE_BYTES

ROTATE_BYTES = 64 * 1024 * 1024
_SUFFIX = ".jsonl"


class Journal:
    """The writing end; one file a start of the advisor, and a new one when it grows large."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._file, self._size = self._new(), 0

    def append(self, line: str) -> None:
        """One line, whole or not at all for its reader. Raises OSError, ValueError if too long."""
        raw = line.encode("utf-8", "backslashreplace")
        if len(raw) > MAX_LINE_BYTES:
            raise ValueError(f"a proposal of {len(raw)} bytes")
        if self._size + len(raw) > ROTATE_BYTES:
            self._begin_anew()
        written = os.write(self._file, raw)
        self._size += written
        if written < len(raw):
            self._size = ROTATE_BYTES  # the torn line must not join the next one
            raise OSError("the journal's disk is full")

    def close(self) -> None:
        """Close the file; the history writer reads on."""
        os.close(self._file)

    def _begin_anew(self) -> None:
        """The old file is closed once there is a new one: its number would soon be another's."""
        old, self._file, self._size = self._file, self._new(), 0
        os.close(old)

    def _new(self) -> int:
        """Names only rise, even if the clock is set back: all but the last may be deleted."""
        stems = (int(path.stem) for path in journals(self._folder) if path.stem.isdecimal())
        number = max(time.time_ns(), 1 + max(stems, default=0))
        path = self._folder / f"{number:020d}{_SUFFIX}"
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o640)


class NoJournal(Journal):
    """Keeps nothing: of an advisor that is only asked."""

    def __init__(self) -> None:
        """No file."""

    def append(self, line: str) -> None:
        """Forget it."""

    def close(self) -> None:
        """Nothing is open."""


def journals(folder: Path) -> list[Path]:
    """Every journal, oldest first; only the last one may still grow."""
    return sorted(folder.glob(f"*{_SUFFIX}"))
