"""The one place that opens history.db for writing.

WAL lets readers go on while the history writer writes. `synchronous=FULL`, because ingest deletes a
spool file as soon as its transaction is committed: with NORMAL a power cut could undo that commit
after the file is gone. One fsync for each batch of records is what that costs.
"""

import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from slurm_ext.core.errors import HistoryError
from slurm_ext.core.ownership import chown_to_parent
from slurm_ext.history.store import reading
from slurm_ext.history.store.reading import explaining

if TYPE_CHECKING:
    from sqlite_utils import Database


class History:
    """An open history; use it as a context manager. Every SQLite error comes as a HistoryError."""

    def __init__(self, path: Path, conn: sqlite3.Connection, busy_timeout_s: float) -> None:
        self.path, self.conn, self.busy_timeout_s = path, conn, busy_timeout_s
        self._opened = path.stat()
        self._size_bytes = self._opened.st_size
        self._whole_bytes = 0  # of the last commit, its write-ahead log folded in

    @cached_property
    def db(self) -> "Database":
        """The same connection as an sqlite_utils.Database (imported only where it is used)."""
        from sqlite_utils import Database

        return Database(self.conn, execute_plugins=False)

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """All or nothing; takes the write lock at once, so that it never fails half-way for it.

        Raises HistoryError also after the commit, where that went into a file that is lost.
        """
        self._check_in_place()
        with explaining(self.path):
            self.conn.execute("BEGIN IMMEDIATE")
            try:
                yield self.conn
                self.conn.execute("COMMIT")
                self._whole_bytes = self._committed_bytes()
            except BaseException:
                if self.conn.in_transaction:  # a full disk has rolled back by itself
                    self.conn.execute("ROLLBACK")
                raise
        self._check_in_place()

    def replaced(self) -> bool:
        """True if another file has taken the place of the open one: it has to be opened again."""
        try:
            return not os.path.samestat(self.path.stat(), self._opened)
        except OSError:
            return False

    def _check_in_place(self) -> None:
        """Raise HistoryError if the file was moved away, replaced or cut: SQLite would write on."""
        whole_bytes = 0 if self._has_log() else self._whole_bytes  # first: it may be folded now
        try:
            now = self.path.stat()
        except OSError:
            now = None
        if now is None or not os.path.samestat(now, self._opened):
            raise HistoryError(f"{self.path} was moved away; restore it, or restart the advisor")
        if now.st_size < max(self._size_bytes, whole_bytes):
            raise HistoryError(
                f"{self.path} was truncated; move it away with its -wal and restore a backup"
            )
        self._size_bytes = now.st_size

    def _committed_bytes(self) -> int:
        """Size of the file once the write-ahead log is folded into it."""
        (pages,) = self.conn.execute("PRAGMA page_count").fetchone()
        (size,) = self.conn.execute("PRAGMA page_size").fetchone()
        return int(pages) * int(size)

    def _has_log(self) -> bool:
        """True if some of what was committed may lie in the write-ahead log alone."""
        try:
            return self.path.with_name(f"{self.path.name}-wal").stat().st_size > 0
        except OSError:
            return False

    def close(self) -> None:
        """Closes the file; the last one to close folds the write-ahead log into it."""
        self.conn.close()

    def __enter__(self) -> "History":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def open_history(path: Path, *, busy_timeout_ms: int = 5000, read_only: bool = False) -> History:
    """The history at `path`, created and migrated where needed.

    Raises HistoryError where it is locked, read-only, damaged, of a newer dlqueue, not dlqueue's,
    or on a full disk; the message says what to do, and the file is left as it was.
    """
    timeout_s = busy_timeout_ms / 1000
    if read_only:
        conn = reading.connect(path, busy_timeout_ms=busy_timeout_ms)
        return _closing_on_error(History(path, conn, timeout_s), _refuse_other_versions)
    return _closing_on_error(History(path, _connect(path, timeout_s), timeout_s), _prepare)


def _closing_on_error(history: History, check: Callable[[History], None]) -> History:
    try:
        check(history)
    except BaseException:
        history.close()
        raise
    return history


def _connect(path: Path, timeout_s: float) -> sqlite3.Connection:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            path.touch(mode=0o640, exist_ok=False)  # other users' job names are private
            chown_to_parent(path)
    except OSError as error:
        raise HistoryError(f"{path} cannot be created: {error.strerror}") from None
    reading.check_size(path)
    with explaining(path):
        return sqlite3.connect(
            path, timeout=timeout_s, isolation_level=None, check_same_thread=False
        )


def _prepare(history: History) -> None:
    """Checks before the first write, so that what is not ours stays untouched."""
    from slurm_ext.history.store import schema

    with explaining(history.path):
        if history.conn.execute("SELECT count(*) FROM sqlite_master").fetchone() != (0,):
            reading.check_ours(history.conn, history.path)
        waiting = schema.pending(schema.applied(history.conn), history.path)
        _journal_ahead(history.conn, history.busy_timeout_s)
        history.conn.execute("PRAGMA synchronous = FULL")
        history.conn.execute("PRAGMA foreign_keys = ON")
    if waiting:
        _migrate(history)  # on disk, as it may touch every row
    # Triggers check each insert, so each keeps an undo of its own: small in memory, 64 KiB else.
    history.conn.execute("PRAGMA temp_store = MEMORY")


def _journal_ahead(conn: sqlite3.Connection, timeout_s: float) -> None:
    """Turns WAL on. Two that do so at once get SQLITE_BUSY without SQLite's own waiting."""
    until = time.monotonic() + timeout_s
    while True:
        try:
            conn.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() >= until:
                raise
            time.sleep(0.01)


def _migrate(history: History) -> None:
    """Applies what is pending, looked up again under the lock: another process may have done it.

    All at once: nobody ever reads a history that is half-way between two versions.
    """
    from slurm_ext.history.store import schema

    with history.transaction():
        for migration in schema.pending(schema.applied(history.conn), history.path):
            schema.apply(history.db, migration)


def _refuse_other_versions(history: History) -> None:
    from slurm_ext.history.store import schema

    with explaining(history.path):
        waiting = schema.pending(schema.applied(history.conn), history.path)
    if waiting:
        raise HistoryError(
            f"{history.path} is from an older dlqueue; `dlqueue serve` brings it up to date"
        )
