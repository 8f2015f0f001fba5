"""The write-ahead log, folded into the history and emptied while nobody reads old rows.

SQLite begins its log again only when all of it is in the database and no reader is at it. Where one
training follows the other, each of which reads for a minute, that moment never comes by itself, and
the log grows for hours (https://sqlite.org/wal.html, "Avoiding Excessively Large WAL Files").
"""

import sqlite3

from slurm_ext.history.store.store import History

WAIT_S = 2.0  # for readers to end, while records wait in the spool


def fold_log(history: History, wait_s: float = WAIT_S) -> bool:
    """True if the log is empty now; a reader that goes on, or a full disk, leaves it as it is."""
    conn = history.conn
    try:
        conn.execute(f"PRAGMA busy_timeout = {round(1000 * wait_s)}")
        (busy, _, _) = conn.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    except sqlite3.Error:
        return False
    finally:
        conn.execute(f"PRAGMA busy_timeout = {round(1000 * history.busy_timeout_s)}")
    return not busy
