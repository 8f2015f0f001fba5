import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlite_utils import Database

from slurm_ext.core.errors import HistoryError
from slurm_ext.history.ingest.spool_folder import ingest_folder
from slurm_ext.history.store import schema
from slurm_ext.history.store.store import open_history
from tests.history.conftest import Spool

NOBODY = 65534
OPEN = """
import sys
from pathlib import Path
from slurm_ext.core.errors import HistoryError
from slurm_ext.history.store.store import open_history
try:
    with open_history(Path(sys.argv[1]), read_only=sys.argv[2] == "read") as history:
        if sys.argv[2] == "write":
            with history.transaction() as conn:
                conn.execute("INSERT OR IGNORE INTO forgotten (record_id) VALUES ('x')")
        history.conn.execute("SELECT count(*) FROM runs").fetchone()
        print("opened")
except HistoryError as error:
    print(error)
"""


def as_nobody(database: Path, how: str) -> str:
    """What a process says that gave its rights away before it opens the history."""
    drop = f"import os, sqlite_utils; os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY})"
    imports, _, rest = OPEN.partition("try:")
    imports += "from slurm_ext.history.store import reading, schema\n"
    words = [sys.executable, "-c", f"{imports}{drop}\ntry:{rest}", str(database), how]
    return subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


@pytest.fixture
def public(tmp_path: Path) -> Iterator[Path]:
    """A history in a folder that every user may enter (pytest's own folders are private)."""
    import shutil
    import tempfile

    folder = Path(tempfile.mkdtemp(prefix="dlqueue-"))
    folder.chmod(0o755)
    open_history(folder / "history.db").close()
    yield folder / "history.db"
    shutil.rmtree(folder)


def test_a_new_history_has_the_settings_that_keep_it_safe(database: Path) -> None:
    """Write-ahead log, a wait for locks, foreign keys, and commits that survive a power cut."""
    with open_history(database, busy_timeout_ms=1234) as history:
        found = {
            name: history.conn.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("journal_mode", "busy_timeout", "foreign_keys", "synchronous")
        }
    assert found == {
        "journal_mode": "wal",
        "busy_timeout": 1234,
        "foreign_keys": 1,
        "synchronous": 2,
    }
    assert database.stat().st_mode & 0o007 == 0


def test_opening_again_changes_nothing(database: Path, spool: Spool) -> None:
    """Migrations are applied once."""
    spool()
    for _ in range(2):
        with open_history(database) as history:
            ingest_folder(history, database.parent / "spool", now_s=0.0)
            assert schema.applied(history.conn) == [m.__name__ for m in schema.MIGRATIONS]
            assert history.conn.execute("SELECT count(*) FROM runs").fetchone() == (1,)


def test_a_newer_history_is_refused_and_untouched(database: Path) -> None:
    """An older dlqueue neither reads nor writes what it does not understand."""
    with open_history(database) as history, history.transaction() as conn:
        conn.execute("INSERT INTO migrations VALUES ('warp_drive', 0)")
    before = database.read_bytes()
    for read_only in (False, True):
        with pytest.raises(HistoryError, match=r"newer dlqueue \(it has warp_drive\); upgrade"):
            open_history(database, read_only=read_only)
    assert database.read_bytes() == before


def test_a_migration_that_fails_leaves_the_old_version(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Never a half-migrated file: what the failed step had done is undone, with its record."""
    open_history(database).close()

    def half(db: Database) -> None:
        db.execute("ALTER TABLE runs ADD COLUMN half TEXT")
        db.execute("ALTER TABLE absent ADD COLUMN half TEXT")

    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, half))
    with pytest.raises(HistoryError, match="no such table"):
        open_history(database)
    with pytest.raises(HistoryError, match="from an older dlqueue"):
        open_history(database, read_only=True)
    monkeypatch.undo()
    with open_history(database) as history:
        assert "half" not in history.db.table("runs").columns_dict
        assert schema.applied(history.conn) == [m.__name__ for m in schema.MIGRATIONS]


def test_two_processes_may_create_it_at_once(database: Path) -> None:
    """Both come through, and the schema is there once."""
    words = [sys.executable, "-c", OPEN, str(database), "write"]
    both = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    assert [process.communicate()[0].strip() for process in both] == ["opened"] * 3
    with open_history(database, read_only=True) as history:
        assert schema.applied(history.conn) == [m.__name__ for m in schema.MIGRATIONS]


def test_a_locked_history_says_so_and_keeps_the_spool(database: Path, spool: Spool) -> None:
    """After the busy timeout: an error that says how to find the holder; nothing is lost."""
    file = spool()
    open_history(database).close()
    holder = sqlite3.connect(database, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with open_history(database, busy_timeout_ms=50) as history:
        with pytest.raises(HistoryError, match="locked by another process; see `fuser"):
            ingest_folder(history, file.parent, now_s=0.0)
        assert file.exists()
        holder.execute("ROLLBACK")
        holder.close()
        assert ingest_folder(history, file.parent, now_s=0.0).taken == 1


@pytest.mark.root
def test_a_history_that_may_not_be_written_says_so(public: Path) -> None:
    """A user without rights gets the reason, and reads where reading is allowed."""
    assert "is not for this user" in as_nobody(public, "read")
    public.chmod(0o644)
    assert as_nobody(public, "read") == "opened"
    assert "is read-only; check its owner" in as_nobody(public, "write")
    public.parent.chmod(0o700)
    assert "cannot be reached: Permission denied" in as_nobody(public, "read")
    assert "cannot be created: Permission denied" in as_nobody(public, "write")


@pytest.mark.root
def test_a_reader_without_rights_sees_what_a_live_writer_committed(
    public: Path, spool: Spool
) -> None:
    """While the keeper has the history open, readers follow its write-ahead log."""
    file = spool()
    public.chmod(0o644)
    with open_history(public) as history:
        ingest_folder(history, file.parent, now_s=0.0)
        assert as_nobody(public, "read") == "opened"


@pytest.mark.parametrize("size", [1, 50, 100, 5000, 40960])
def test_a_truncated_history_is_refused(database: Path, size: int) -> None:
    """A cut file is damage to be told, not an empty history to begin with."""
    open_history(database).close()
    os.truncate(database, size)
    for read_only in (False, True):
        with pytest.raises(HistoryError, match="restore a backup"):
            open_history(database, read_only=read_only)
    assert database.stat().st_size == size


def test_damage_inside_is_told_when_it_is_met(database: Path, spool: Spool) -> None:
    """Pages overwritten with rubbish give one clear error, and the record stays in the spool."""
    file = spool()
    open_history(database).close()
    with database.open("r+b") as stream:
        stream.seek(4096)
        stream.write(b"\xa5" * (database.stat().st_size - 4096))
    with (
        pytest.raises(HistoryError, match="is damaged; move it away"),
        open_history(database) as history,
    ):
        ingest_folder(history, file.parent, now_s=0.0)
    assert file.exists()


def test_damage_that_sqlite_cannot_spell_is_told(database: Path) -> None:
    """SQLite quotes a damaged statement, bytes that are no text included."""
    open_history(database).close()
    whole = database.read_bytes()
    for name in ("-wal", "-shm"):
        database.with_name(database.name + name).unlink(missing_ok=True)
    database.write_bytes(whole.replace(b"CREATE TABLE", b"CREATE \xc5ABLE"))
    for read_only in (False, True):
        with pytest.raises(HistoryError, match="is damaged; move it away"):
            open_history(database, read_only=read_only)


def test_a_folder_in_its_place_is_told(database: Path) -> None:
    """And not taken for a fault of the disk."""
    database.mkdir()
    for read_only in (False, True):
        with pytest.raises(HistoryError, match="is no file"):
            open_history(database, read_only=read_only)


def test_other_files_are_refused_and_untouched(database: Path) -> None:
    """A text, or somebody else's database, is not made into a history."""
    database.write_text("not a database, and long enough to be looked at as one" * 100)
    with pytest.raises(HistoryError, match="is not an SQLite file"):
        open_history(database)
    database.unlink()
    with sqlite3.connect(database) as other:
        other.execute("CREATE TABLE bookmarks (url TEXT)")
    other.close()
    before = database.read_bytes()
    for read_only in (False, True):
        with pytest.raises(HistoryError, match="is not dlqueue's history"):
            open_history(database, read_only=read_only)
    assert database.read_bytes() == before


def test_reading_what_is_not_there_creates_nothing(database: Path) -> None:
    """The message says who makes a history; an empty file is no history yet either."""
    with pytest.raises(HistoryError, match="does not exist yet; `dlqueue serve` creates it"):
        open_history(database, read_only=True)
    assert not database.exists()
    database.touch()
    with pytest.raises(HistoryError, match="is empty yet"):
        open_history(database, read_only=True)


@pytest.mark.root
def test_a_full_disk_loses_nothing(tmp_path: Path, spool: Spool) -> None:
    """No room: a clear error, nothing half done; with room again every record is taken once."""
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=600k", "tmpfs", str(disk)], check=True)
    try:
        for number in range(1000):
            spool(f"{number}.json", record_id=f"r-{number}")
        folder = tmp_path / "spool"
        with open_history(disk / "history.db") as history:
            with pytest.raises(HistoryError, match="has no room left on its disk"):
                ingest_folder(history, folder, now_s=0.0)
            subprocess.run(["mount", "-o", "remount,size=64m", str(disk)], check=True)
            left = len(list(folder.iterdir()))
            assert left > 0
            assert ingest_folder(history, folder, now_s=0.0).taken == left
            assert history.conn.execute("SELECT count(*) FROM runs").fetchone() == (1000,)
            assert history.conn.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


@pytest.mark.root
def test_a_disk_too_small_for_the_schema(tmp_path: Path) -> None:
    """Not even the tables fit: the error says so, and with room the same file is completed."""
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=40k", "tmpfs", str(disk)], check=True)
    try:
        with pytest.raises(HistoryError, match=r"no room left|input/output error"):
            open_history(disk / "history.db")
        subprocess.run(["mount", "-o", "remount,size=8m", str(disk)], check=True)
        with open_history(disk / "history.db") as history:
            assert schema.applied(history.conn) == [m.__name__ for m in schema.MIGRATIONS]
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: gives files to another user")
def test_a_history_that_root_begins_is_the_state_folders_owners(tmp_path: Path) -> None:
    """An administrator imports old jobs before the advisor, which is not root, first starts."""
    os.chown(tmp_path, NOBODY, NOBODY)
    open_history(tmp_path / "history.db").close()
    assert {path.stat().st_uid for path in tmp_path.iterdir()} == {NOBODY}
