"""Whatever is wrong with history.db: jobs run as written, and later each has exactly one record."""

import contextlib
import os
import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

import pytest

from slurm_ext.sandbox import Sandbox
from tests.conftest import MakeSandbox
from tests.whole import (
    ACTING,
    ALIKE,
    WHOLE,
    advisor_runs,
    asked,
    completed,
    history_db,
    recorded,
    runs,
    said_in_log,
    teach,
    until,
)

pytestmark = pytest.mark.slurm

BAD = sorted((Path(__file__).parents[1] / "bad_input" / "history").iterdir())
NAMED = {
    "another-programs.db": "is not dlqueue's history",
    "cut-after-the-first-page.db": "is damaged",
    "cut-below-a-page.db": "is truncated",
    "newer-version.db": "was written by a newer dlqueue",
    "not-sqlite.db": "is not an SQLite file",
    "only-nul-bytes.db": "is not an SQLite file",
}
Fault = Callable[[Sandbox], AbstractContextManager[str]]


@pytest.fixture(scope="module")
def slurm(make_module_sandbox: MakeSandbox) -> Sandbox:
    """All of dlqueue, acting; jobs called `known` are known."""
    sandbox = make_module_sandbox(**WHOLE, settings=ACTING)
    teach(sandbox, "known")
    return sandbox


@contextlib.contextmanager
def locked(slurm: Sandbox) -> Iterator[str]:
    """Somebody holds the history for himself."""
    holder = sqlite3.connect(history_db(slurm), isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    yield "is locked by another process"
    holder.close()


@contextlib.contextmanager
def read_only(slurm: Sandbox) -> Iterator[str]:
    """Its file cannot be written any more."""
    path = str(history_db(slurm))
    slurm.stop("advisor")
    subprocess.run(["mount", "--bind", path, path], check=True)
    subprocess.run(["mount", "-o", "remount,bind,ro", path], check=True)
    slurm.start("advisor")
    yield "is read-only"
    slurm.stop("advisor")
    subprocess.run(["umount", path], check=True)
    slurm.start("advisor")


@contextlib.contextmanager
def truncated(slurm: Sandbox) -> Iterator[str]:
    """It is cut while the advisor has it open; a backup takes its place."""
    path, backup = history_db(slurm), slurm.path("backup.db")
    copy(path, backup)
    with path.open("r+b") as stream:
        stream.truncate(path.stat().st_size // 2)
    yield "move it away with its -wal and restore a backup"
    restore(slurm, backup)


@contextlib.contextmanager
def moved_away(slurm: Sandbox) -> Iterator[str]:
    """Its file is gone for a while; then it is back, as a copy."""
    path, backup = history_db(slurm), slurm.path("backup.db")
    copy(path, backup)
    path.rename(slurm.path("away.db"))
    yield "was moved away"
    restore(slurm, backup)


def copy(path: Path, backup: Path) -> None:
    """A backup as SQLite makes it, with the write-ahead log folded in."""
    with contextlib.closing(sqlite3.connect(path)) as source:
        source.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        with contextlib.closing(sqlite3.connect(backup)) as target:
            source.backup(target)


def restore(slurm: Sandbox, backup: Path) -> None:
    """What the error message says: the bad file away with its -wal, the backup in its place."""
    away = slurm.path(f"bad-{os.urandom(4).hex()}")
    away.mkdir()
    for path in slurm.path("dlqueue").glob("history.db*"):
        path.rename(away / path.name)
    shutil.copy(backup, slurm.path("dlqueue/.history.db"))
    slurm.path("dlqueue/.history.db").rename(history_db(slurm))


@pytest.mark.root
@pytest.mark.parametrize("fault", [locked, read_only, truncated, moved_away])
def test_a_history_that_cannot_be_written(slurm: Sandbox, fault: Fault) -> None:
    """Advice goes on from memory, records wait in the spool, and come in once it is repaired."""
    log_before = len(slurm.log("advisor"))
    with fault(slurm) as why:
        job_ids = [slurm.sbatch("--wrap", f"echo {fault.__name__}")[0] for _ in range(3)]
        for job_id in job_ids:
            assert slurm.wait(job_id) == "COMPLETED"
            assert slurm.output(job_id) == f"{fault.__name__}\n"
        until(lambda: waiting(slurm) >= 3, "no records wait in the spool")
        until(lambda: said_in_log(slurm, why, log_before), f"the log does not say: {why}")
        assert "x faster" in slurm.sbatch("-H", "-Jknown", "--wrap", "true")[1]
    completed(slurm, *job_ids)
    until(lambda: waiting(slurm) == 0, "records stay in the spool")


def waiting(slurm: Sandbox) -> int:
    """Records in the advisor's spool."""
    return len(list(slurm.path("dlqueue/spool").glob("*.json")))


def test_a_history_that_is_none(slurm: Sandbox) -> None:
    """Each bad file is named in the log and left as it is; the jobs of that time are not lost."""
    good, path = slurm.path("good.db"), history_db(slurm)
    slurm.stop("advisor")
    copy(path, good)
    known = runs(slurm)
    job_ids = []
    for bad in BAD:
        restore(slurm, bad)
        log_before = len(slurm.log("advisor"))
        slurm.start("advisor")
        job_id, said = slurm.sbatch("--wrap", "true")
        assert (slurm.wait(job_id), said) == ("COMPLETED", ""), bad.name
        why = f"dlqueue.history_writer: {path} {NAMED[bad.name]}"
        until(partial(said_in_log, slurm, why, log_before), f"the log does not say: {why}")
        slurm.stop("advisor")
        assert path.read_bytes() == bad.read_bytes(), bad.name
        job_ids.append(job_id)
    restore(slurm, good)
    slurm.start("advisor")
    completed(slurm, *job_ids)
    recorded(slurm, {job_id: [state for _, state in found] for job_id, found in known.items()})


def test_records_come_in_while_people_read(slurm: Sandbox) -> None:
    """A reader who never ends, such as a slow `history export`, holds nothing up."""
    with contextlib.closing(sqlite3.connect(history_db(slurm), isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM runs").fetchone()
        completed(slurm, *(slurm.sbatch("--wrap", "true")[0] for _ in range(2)))
        reader.execute("ROLLBACK")


def test_the_advisor_still_knows(slurm: Sandbox) -> None:
    """After all that it answers from every run that taught something."""
    until(lambda: advisor_runs(slurm) == ALIKE, "it has forgotten")
    assert asked(slurm, "SELECT count(*) FROM loader_runs") == [(ALIKE,)]
