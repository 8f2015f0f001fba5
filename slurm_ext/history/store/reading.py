"""The read-only way into history.db: standard library only, quick to import, never creates a file.

Both `store.open_history(read_only=True)` and `lookup`, which `dlqueue predict` waits for, use it.
"""

import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from slurm_ext.core.errors import HistoryError, NoHistoryError
from slurm_ext.core.settings.own import own_folder

APPLICATION_ID = 0x646C7175  # "dlqu" in the file's header
_SMALLEST_PAGE = 512


def connect(path: Path, *, busy_timeout_ms: int = 5000) -> sqlite3.Connection:
    """A read-only connection. Raises HistoryError where there is no usable history."""
    check_size(path)
    with explaining(path):
        conn = _open(path, busy_timeout_ms)
    try:
        check_ours(conn, path)
    except HistoryError:
        conn.close()
        raise
    return conn


def check_size(path: Path) -> None:
    """Raises HistoryError where there is no file, or one cut below a page.

    SQLite would take some of the latter for a new database.
    """
    try:
        info = path.stat()
    except FileNotFoundError:
        raise NoHistoryError(f"{path} does not exist yet; {_creator(path)}") from None
    except OSError as error:
        raise HistoryError(f"{path} cannot be reached: {error.strerror}") from None
    if not stat.S_ISREG(info.st_mode):
        raise HistoryError(f"{path} is no file; move it away, or set paths.state_dir")
    if not os.access(path, os.R_OK):
        raise HistoryError(f"{path} is not for this user; root, its owner and group may read it")
    if 0 < info.st_size < _SMALLEST_PAGE:
        raise HistoryError(f"{path} is truncated; move it away with its -wal and restore a backup")


def _creator(path: Path) -> str:
    """The maker of this history: a site's advisor, or a first run of the user's own."""
    if str(path.parent) == own_folder():
        return "your first `dlqueue run python train.py` creates it"
    return "`dlqueue serve` creates it, `dlqueue run` one of your own"


def check_ours(conn: sqlite3.Connection, path: Path) -> None:
    """Raises HistoryError unless the file is dlqueue's and has tables."""
    with explaining(path):
        (application,) = conn.execute("PRAGMA application_id").fetchone()
        (tables,) = conn.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if not tables:
        raise NoHistoryError(f"{path} is empty yet; `dlqueue serve` sets it up")
    if application != APPLICATION_ID:
        raise HistoryError(f"{path} is not dlqueue's history; check paths.state_dir")


def _open(path: Path, busy_timeout_ms: int) -> sqlite3.Connection:
    """Read-only; as an unchanging file where the folder is not writable and no writer is there.

    A write-ahead log needs its -shm file. A reader who may not create it can still read a history
    that nobody has open: then no -wal exists, and the file cannot change under the reader.
    """
    try:
        return _probe(path, "mode=ro", busy_timeout_ms)
    except sqlite3.OperationalError as error:
        if path.with_name(path.name + "-wal").exists():
            raise explained(path, error) from error
        return _probe(path, "mode=ro&immutable=1", busy_timeout_ms)


def _probe(path: Path, options: str, busy_timeout_ms: int) -> sqlite3.Connection:
    """Opens and reads once: SQLite looks at the file only then."""
    uri = f"file:{quote(str(path.absolute()))}?{options}"
    conn = sqlite3.connect(
        uri, uri=True, timeout=busy_timeout_ms / 1000, isolation_level=None, check_same_thread=False
    )
    try:
        conn.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.Error:
        conn.close()
        raise
    return conn


_ADVICE = {
    sqlite3.SQLITE_BUSY: "is locked by another process; see `fuser -v` on it, or try again",
    sqlite3.SQLITE_LOCKED: "is locked by another process; see `fuser -v` on it, or try again",
    sqlite3.SQLITE_READONLY: "is read-only; check its owner, its mode, its folder's and the mount",
    sqlite3.SQLITE_PERM: "may not be used by this user; check its owner and mode",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened; check that its folder exists and may be used",
    sqlite3.SQLITE_FULL: "has no room left on its disk; nothing was written: free space, try again",
    sqlite3.SQLITE_IOERR: "met an input/output error; nothing was written: check the disk",
    sqlite3.SQLITE_INTERRUPT: "has too much to read for this: ask for fewer jobs",
    sqlite3.SQLITE_CORRUPT: "is damaged; move it away with its -wal and restore a backup",
    sqlite3.SQLITE_NOTADB: "is not an SQLite file; move it away and restore a backup",
}


_OLDER = ("no such column", "no such table: outcomes", "no such table: sync_runs")


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
