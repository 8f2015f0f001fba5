"""Unreadable files are kept with the reason, in `<state_dir>/aside/`, up to a bound.

The reason is committed first and the file moved then; a crash in between only repeats the move,
because the name is made from what identifies the file. Beyond the bound of a user's files, or of
all, the oldest go and are counted (table set_aside_dropped): nobody can fill the disk with them.
"""

import errno
import json
import re
import sqlite3
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from slurm_ext.history.store.store import History
from slurm_ext.node.record.reader import UnusableRecordError, read_raw

MAX_BYTES, MAX_ROWS = 256 << 20, 10_000
MAX_BYTES_OF_USER, MAX_ROWS_OF_USER = 32 << 20, 1000  # eight of the largest records
KEPT = 0.9  # of a bound, once it was passed: the oldest are not looked for each time
MAX_REASON = 500
_PLAIN = re.compile(r"[^A-Za-z0-9_.+-]")


def note_quarantined(
    conn: sqlite3.Connection,
    name: str,
    source: str,
    reason: str,
    sha256: str | None,
    size_bytes: int | None,
    now_s: float,
    uid: int | None = None,
) -> list[str]:
    """Say why something is not in the history; repeated, it changes nothing.

    Returns the names of files that have to go for it.
    """
    texts = (
        text.encode("utf-8", "backslashreplace").decode()
        for text in (name, source, reason[:MAX_REASON])
    )
    conn.execute(
        "INSERT OR IGNORE INTO set_aside VALUES (?, ?, ?, ?, ?, ?, ?)",
        (*texts, sha256, size_bytes, now_s, uid),
    )
    gone = _drop(conn, "uid IS ?", uid, MAX_BYTES_OF_USER, MAX_ROWS_OF_USER)
    return gone + _drop(conn, "?1 IS ?1", uid, MAX_BYTES, MAX_ROWS)


def quarantine(
    history: History, path: Path, reason: str, sha256: str | None, *, now_s: float
) -> None:
    """Note why `path` is unreadable, then move it, whatever it is, out of the spool's way."""
    try:
        info = path.lstat()
    except FileNotFoundError:
        return  # another ingester was quicker
    name = f"{_PLAIN.sub('_', path.name)[:120]}-{info.st_ino}-{info.st_mtime_ns}"
    size_bytes = min(info.st_size, 512 * info.st_blocks)  # on the disk: a sparse giant is small
    uid = _uid_in(path)
    with history.transaction() as conn:
        gone = note_quarantined(conn, name, str(path), reason, sha256, size_bytes, now_s, uid)
    _move(path, history.path.parent / "aside", name)
    remove_aside(gone, history.path.parent / "aside", path.parent / ".aside")


def remove_aside(names: Iterable[str], *folders: Path) -> None:
    """Delete files that are beyond the bound, wherever they were put."""
    for name in names:
        for folder in folders:
            with suppress(OSError):  # it is a line of a journal, was taken away, or is a folder
                (folder / name).unlink()


def _drop(
    conn: sqlite3.Connection, which: str, uid: int | None, most_bytes: int, most_rows: int
) -> list[str]:
    """Forget the oldest beyond a bound, but for the newest of all; their names."""
    totals = f"SELECT total(size_bytes), count(*) FROM set_aside WHERE {which}"
    size_bytes, rows = conn.execute(totals, (uid,)).fetchone()
    if size_bytes <= most_bytes and rows <= most_rows:
        return []
    newest_first = (
        "SELECT name, size_bytes, sum(size_bytes) OVER place, row_number() OVER place"
        f" FROM set_aside WHERE {which} WINDOW place AS (ORDER BY aside_s DESC, name)"
    )
    beyond = [
        (name, size or 0)
        for name, size, up_to_it, number in conn.execute(newest_first, (uid,))
        if number > 1 and ((up_to_it or 0) > KEPT * most_bytes or number > KEPT * most_rows)
    ]
    conn.executemany("DELETE FROM set_aside WHERE name = ?", [(name,) for name, _ in beyond])
    conn.execute(
        "UPDATE set_aside_dropped SET records = records + ?, size_bytes = size_bytes + ?",
        (len(beyond), sum(size for _, size in beyond)),
    )
    return [name for name, _ in beyond]


def _uid_in(path: Path) -> int | None:
    """Uid in an unusable record; None where it has none."""
    try:
        uid = json.loads(read_raw(path))["identity"]["uid"]
    except (UnusableRecordError, OSError, ValueError, TypeError, KeyError, RecursionError):
        return None
    return uid if type(uid) is int and 0 <= uid < 1 << 32 else None


def _move(path: Path, folder: Path, name: str) -> None:
    """A rename, so that links, pipes and giants are moved unread.

    Where aside/ is on another filesystem, a hidden folder of the spool takes its place.
    """
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        path.rename(folder / name)
    except FileNotFoundError:
        return
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        near = path.parent / ".aside"
        near.mkdir(mode=0o700, exist_ok=True)
        path.rename(near / name)
