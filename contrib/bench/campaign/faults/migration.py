"""The history is of an earlier version, and the writer dies while it brings it up to date."""

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from contrib.bench.campaign.cluster import Cluster
from contrib.bench.campaign.faults.fault import every, on_records
from contrib.bench.campaign.faults.history import writer
from slurm_ext.history.store import schema
from slurm_ext.history.store.store import open_history
from slurm_ext.sandbox.processes import send
from tests.whole import history_db

_TABLES = (
    "SELECT name FROM sqlite_master WHERE type = 'table' AND name != 'migrations'"
    " AND name NOT LIKE 'sqlite%'"
)


@contextmanager
def _migrating(cluster: Cluster) -> Iterator[None]:
    """The history writer is killed while it brings the tables of an earlier version up to date."""
    cluster.slurm.stop("advisor")
    taken_back(history_db(cluster.slurm))
    cluster.slurm.start("advisor")

    def turn(number: int) -> None:
        pid = writer(cluster.slurm)
        time.sleep(number % 10 / 10)  # from its start to its first records
        if pid is not None:
            send(pid, signal.SIGKILL)

    with every(0.05, turn):
        yield


def taken_back(path: Path) -> None:
    """As an earlier version wrote it: every row, in the tables of before the last migration."""
    before = path.with_name(".before.db")
    with (
        patch.object(schema, "MIGRATIONS", schema.MIGRATIONS[:-1]),
        open_history(before) as history,
    ):
        history.conn.execute("PRAGMA foreign_keys = OFF")
        history.conn.execute("ATTACH ? AS now", (str(path),))
        for (table,) in history.conn.execute(_TABLES).fetchall():
            facts = history.conn.execute(f"PRAGMA table_info({table})")
            names = ", ".join(name for _, name, *_ in facts)
            history.conn.execute(f"INSERT INTO {table} ({names}) SELECT {names} FROM now.{table}")
    for ending in ("-wal", "-shm"):
        path.with_name(path.name + ending).unlink(missing_ok=True)
    before.replace(path)


FAULTS = (
    on_records("history_migrating", "the history writer is killed while it migrates", _migrating),
)
