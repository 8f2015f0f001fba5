"""The history cannot be written, or is not the history."""

import contextlib
import os
import shutil
import signal
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from contrib.bench.campaign.cluster import Cluster
from contrib.bench.campaign.faults.fault import Break, every, on_records
from slurm_ext.sandbox import Sandbox
from slurm_ext.sandbox.processes import descendants, send
from tests.whole import history_db

_WRITER = b"slurm_ext.advisor.history_writer.writer"
_PAGE = 4096


def writer(slurm: Sandbox) -> int | None:
    """The history writer's pid, while there is one."""
    for pid in descendants(slurm.status()["daemons"]["advisor"]):
        with contextlib.suppress(OSError):
            if _WRITER in Path(f"/proc/{pid}/cmdline").read_bytes():
                return pid
    return None


@contextmanager
def _writer_killed(cluster: Cluster) -> Iterator[None]:
    """Killed again and again, at whatever it is doing."""

    def turn(_: int) -> None:
        pid = writer(cluster.slurm)
        if pid is not None:
            send(pid, signal.SIGKILL)

    with every(0.7, turn):
        yield


@contextmanager
def _writer_stopped(cluster: Cluster) -> Iterator[None]:
    pid = writer(cluster.slurm)
    send(pid or 0, signal.SIGSTOP)
    yield
    send(pid or 0, signal.SIGCONT)


@contextmanager
def _locked(cluster: Cluster) -> Iterator[None]:
    with contextlib.closing(sqlite3.connect(history_db(cluster.slurm), timeout=60)) as holder:
        holder.isolation_level = None
        holder.execute("BEGIN EXCLUSIVE")
        yield


@contextmanager
def _read_only(cluster: Cluster) -> Iterator[None]:
    path = str(history_db(cluster.slurm))
    cluster.slurm.stop("advisor")
    subprocess.run(["mount", "--bind", path, path], check=True)
    subprocess.run(["mount", "-o", "remount,bind,ro", path], check=True)
    cluster.slurm.start("advisor")
    yield
    cluster.slurm.stop("advisor")
    subprocess.run(["umount", path], check=True)
    cluster.slurm.start("advisor")


def spoiled(spoil: Callable[[Path], object]) -> Break:
    """The file is spoiled while it is open; what the log says is done: a backup takes its place."""

    @contextmanager
    def broken(cluster: Cluster) -> Iterator[None]:
        path, backup = history_db(cluster.slurm), cluster.slurm.path("backup.db")
        _copy(path, backup)
        spoil(path)
        yield
        _restore(cluster.slurm, backup)

    return broken


def _copy(path: Path, backup: Path, wait_s: float = 60) -> None:
    """A backup as SQLite makes it."""
    with (
        contextlib.closing(sqlite3.connect(path, timeout=wait_s)) as source,
        contextlib.closing(sqlite3.connect(backup)) as target,
    ):
        source.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        source.backup(target)


def _restore(slurm: Sandbox, backup: Path) -> None:
    away = slurm.path(f"bad-{os.urandom(4).hex()}")
    away.mkdir()
    for path in slurm.path("dlqueue").glob("history.db*"):
        path.rename(away / path.name)
    hidden = slurm.path("dlqueue/.history.db")
    shutil.copy(backup, hidden)
    hidden.rename(history_db(slurm))


def _cut(path: Path) -> None:
    with path.open("r+b") as stream:
        stream.truncate(path.stat().st_size // 2)


def _garble(path: Path) -> None:
    """Nonsense over every third page behind the first."""
    with path.open("r+b") as stream:
        for page in range(1, path.stat().st_size // _PAGE, 3):
            stream.seek(page * _PAGE)
            stream.write(os.urandom(_PAGE))


@contextmanager
def _replaced(cluster: Cluster) -> Iterator[None]:
    """A backup of this moment takes the open file's place every two seconds."""
    slurm, backup = cluster.slurm, cluster.slurm.path("backup.db")

    def turn(_: int) -> None:
        pid = writer(slurm)
        if pid is not None:
            send(pid, signal.SIGSTOP)
            with contextlib.suppress(sqlite3.OperationalError):  # stopped within a transaction
                _copy(history_db(slurm), backup, wait_s=0.2)
                _restore(slurm, backup)
            send(pid, signal.SIGCONT)

    with every(2.0, turn):
        yield


@contextmanager
def _of_the_future(cluster: Cluster) -> Iterator[None]:
    """A newer dlqueue wrote into it, and was taken back; then that is undone."""
    path = history_db(cluster.slurm)
    cluster.slurm.stop("advisor")
    _run(path, "INSERT INTO migrations VALUES ('tables_of_2031', 0)")
    cluster.slurm.start("advisor")
    yield
    _run(path, "DELETE FROM migrations WHERE name = 'tables_of_2031'")


def _run(path: Path, statement: str) -> None:
    with contextlib.closing(sqlite3.connect(path, timeout=60)) as history, history:
        history.execute(statement)


FAULTS = (
    on_records("writer_killed", "the history writer is killed at every step", _writer_killed),
    on_records("writer_stopped", "the history writer is stopped", _writer_stopped),
    on_records("history_locked", "another process holds the history", _locked),
    on_records("history_read_only", "the history cannot be written", _read_only),
    on_records("history_corrupt", "a third of the history's pages is nonsense", spoiled(_garble)),
    on_records("history_truncated", "half of the history is cut off", spoiled(_cut)),
    on_records("history_gone", "the history's file is removed", spoiled(Path.unlink)),
    on_records("history_replaced", "a backup takes the open history's place", _replaced),
    on_records("history_of_the_future", "a newer dlqueue wrote the history", _of_the_future),
)
