"""Ingest under `kill -9`: real processes, and the truth counted afterwards."""

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from slurm_ext.history.store.store import open_history
from tests.history.conftest import COUNTERS, Spool

RECORDS = 5
INGEST = """
import os, signal, sys
from pathlib import Path
from slurm_ext.history.store.store import open_history
from slurm_ext.history.ingest import spool_folder as ingest

database, left, batch = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
ingest.BATCH_RECORDS = batch

def step(name):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)

with open_history(database, busy_timeout_ms=60000) as history:
    print(ingest.ingest_folder(history, database.parent / "spool", now_s=2e9, step=step))
"""


def start(database: Path, *, kill_at: int = 0, batch: int = 500) -> "subprocess.Popen[bytes]":
    """An ingesting process that kills itself at its step number `kill_at` (0: never)."""
    words = [sys.executable, "-c", INGEST, str(database), str(kill_at), str(batch)]
    return subprocess.Popen(words, stdout=subprocess.DEVNULL)


def fill(spool: Spool, many: int) -> list[str]:
    """So many records under names of their own; their ids, sorted."""
    ids = sorted(f"cluster-{number}-0-n1" for number in range(many))
    for record_id in ids:
        spool(f"{record_id}.json", record_id=record_id)
    return ids


def check(database: Path, ids: list[str]) -> None:
    """Every record exactly once, with all that belongs to it; nothing left in the spool."""
    with open_history(database, read_only=True) as history:
        execute = history.conn.execute
        assert [i for (i,) in execute("SELECT record_id FROM runs ORDER BY 1")] == ids
        for table, each in (
            ("loader_runs", 1),
            ("counters", COUNTERS),
            ("timeline", 1),
            ("probes", 1),
            ("step_splits", 1),
        ):
            assert execute(f"SELECT count(*) FROM {table}").fetchone() == (each * len(ids),)
        assert execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert execute("PRAGMA foreign_key_check").fetchall() == []
    assert list((database.parent / "spool").iterdir()) == []


@pytest.mark.parametrize("kill_at", range(1, 1 + 2 + 2 * RECORDS))
def test_killed_at_any_step_every_record_counts_once(
    database: Path, spool: Spool, kill_at: int
) -> None:
    """Read, each insert, committed, each delete: whichever comes last, the next pass repairs."""
    ids = fill(spool, RECORDS)
    assert start(database, kill_at=kill_at).wait() == -signal.SIGKILL
    assert start(database).wait() == 0
    check(database, ids)


def test_there_are_no_other_steps(database: Path, spool: Spool) -> None:
    """The steps that the test above kills at are all there are."""
    ids = fill(spool, RECORDS)
    assert start(database, kill_at=1 + 2 + 2 * RECORDS).wait() == 0
    check(database, ids)


def test_killed_at_random_again_and_again(database: Path, spool: Spool) -> None:
    """Also between the steps: inside SQLite, inside a file, before the schema is whole."""
    ids = fill(spool, 1500)
    rng = random.Random(7)
    for _ in range(8):
        process = start(database, batch=20)
        time.sleep(rng.uniform(0.05, 0.5))
        process.kill()
        process.wait()
    assert start(database, batch=20).wait() == 0
    check(database, ids)


def test_two_ingesters_at_once_share_the_work(database: Path, spool: Spool) -> None:
    """A second process (a backup controller, a person's command) neither doubles nor loses."""
    ids = fill(spool, 600)
    both = [start(database, batch=10) for _ in range(2)]
    assert [process.wait() for process in both] == [0, 0]
    check(database, ids)


def test_a_bad_file_that_cannot_be_moved_waits(
    database: Path, spool: Spool, tmp_path: Path
) -> None:
    """It holds nothing up; its reason is noted once, and it is moved by a later pass."""
    ids = fill(spool, 2)
    bad = tmp_path / "spool" / "bad.json"
    bad.write_text("{")
    (tmp_path / "aside").write_text("in the way")
    assert start(database).wait() == 0
    assert bad.exists()
    (tmp_path / "aside").unlink()
    assert start(database).wait() == 0
    with open_history(database, read_only=True) as history:
        ((name,),) = history.conn.execute("SELECT name FROM set_aside").fetchall()
    assert (tmp_path / "aside" / name).read_text() == "{"
    check(database, ids)


def test_first_openings_at_one_moment(tmp_path: Path) -> None:
    """Several processes that find no database yet all get a whole one, none is told to go away."""
    code = (
        "import sys, time\nfrom pathlib import Path\n"
        "from slurm_ext.history.store.store import open_history\n"
        "while time.time() < float(sys.argv[2]): pass\n"
        "open_history(Path(sys.argv[1]), busy_timeout_ms=60000).close()\n"
    )
    for number in range(5):
        words = [sys.executable, "-c", code, str(tmp_path / f"{number}.db"), str(time.time() + 0.4)]
        all_at_once = [subprocess.Popen(words) for _ in range(4)]
        assert [process.wait() for process in all_at_once] == [0, 0, 0, 0]
