"""Unreadable files are kept with the reason, never dropped: in `<state_dir>/aside/`.

The reason is committed first and the file moved then; a crash in between only repeats the move,
because the name is made from what identifies the file.
"""

import errno
import re
import sqlite3
from pathlib import Path

from slurm_ext.history.store.store import History

_PLAIN = re.compile(r"[^A-Za-z0-9_.+-]")


def note_quarantined(
    conn: sqlite3.Connection,
    name: str,
    source: str,
    reason: str,
    sha256: str | None,
    size_bytes: int | None,
    now_s: float,
) -> None:
    """The row that says why something is not in the history; repeated, it changes nothing."""
    texts = (text.encode("utf-8", "backslashreplace").decode() for text in (name, source, reason))
    conn.execute(
        "INSERT OR IGNORE INTO set_aside VALUES (?, ?, ?, ?, ?, ?)",
        (*texts, sha256, size_bytes, now_s),
    )


def quarantine(
    history: History, path: Path, reason: str, sha256: str | None, *, now_s: float
) -> None:
    """Note why `path` is unreadable, then move it, whatever it is, out of the spool's way."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return  # another ingester was quicker
    name = f"{_PLAIN.sub('_', path.name)[:120]}-{found.st_ino}-{found.st_mtime_ns}"
    with history.transaction() as conn:
        note_quarantined(conn, name, str(path), reason, sha256, found.st_size, now_s)
    _move(path, history.path.parent / "aside", name)


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
