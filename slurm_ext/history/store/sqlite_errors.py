"""SQLite's errors as HistoryErrors whose message says what to do next."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from slurm_ext.core.errors import HistoryError

_ADVICE = {
    sqlite3.SQLITE_BUSY: "is locked by another process; see `fuser -v` on it, or try again",
    sqlite3.SQLITE_LOCKED: "is locked by another process; see `fuser -v` on it, or try again",
    sqlite3.SQLITE_READONLY: "is read-only; check its owner, its mode, its folder's and the mount",
    sqlite3.SQLITE_PERM: "may not be used by this user; check its owner and mode",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened; check that its folder exists and may be used",
    sqlite3.SQLITE_FULL: "has no room left on its disk; nothing was written: free space, try again",
    sqlite3.SQLITE_IOERR: "met an input/output error; nothing was written: check the disk",
    sqlite3.SQLITE_CORRUPT: "is damaged; move it away with its -wal and restore a backup",
    sqlite3.SQLITE_NOTADB: "is not an SQLite file; move it away and restore a backup",
}
_OLDER = ("no such column", "no such table: outcomes")


def explained(path: Path, error: sqlite3.Error) -> HistoryError:
    """The HistoryError for what SQLite raised over `path`."""
    if any(missing in str(error) for missing in _OLDER):
        upgrade = "is from an older dlqueue; `dlqueue serve` brings it up to date"
        return HistoryError(f"{path} {upgrade}")
    code = getattr(error, "sqlite_errorcode", None)
    advice = _ADVICE.get(code & 0xFF) if code is not None else None
    return HistoryError(f"{path} {advice}" if advice else f"{path} cannot be used: {error}")


@contextmanager
def explaining(path: Path) -> Iterator[None]:
    """Turns every sqlite3.Error of the block into a HistoryError."""
    try:
        yield
    except sqlite3.Error as error:
        raise explained(path, error) from error
    except UnicodeDecodeError as error:  # of SQLite's own message, which quotes what is damaged
        raise HistoryError(f"{path} {_ADVICE[sqlite3.SQLITE_CORRUPT]}") from error
