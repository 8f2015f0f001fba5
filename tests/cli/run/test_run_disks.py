"""Disks under `dlqueue run` that are linked, full or failing: no run takes another one's place."""

import errno
import fcntl
import json
import os
import resource
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.advisor.own_runs.own_history import ARRIVED, folder, keep, take_in
from slurm_ext.cli.common.settings import load_for_history
from slurm_ext.cli.run.end_line import end_json, end_line
from slurm_ext.cli.run.probed import Watched
from slurm_ext.history.store.store import open_history
from tests.cli.run.conftest import ROOT, Home

Full = Callable[[], AbstractContextManager[None]]


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's own folder, of which nothing is made yet."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.delenv("DLQUEUE_CONFIG", raising=False)
    return tmp_path / "dlqueue"


@pytest.fixture
def full() -> Full:
    """A while in which files can be made and not one byte written, as on a full disk."""

    @contextmanager
    def limited() -> Iterator[None]:
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)

    return limited


def test_a_linked_temporary_folder_costs_no_run(home: Home, tmp_path: Path) -> None:
    """The run is kept and its folder removed; what cannot start has its one line and status."""
    (tmp_path / "link").symlink_to(home.tmp)
    done = home.dlqueue("run", "true", TMPDIR=str(tmp_path / "link"))
    assert done.stderr.endswith("; dlqueue explain 1\n")
    done = home.dlqueue("run", "/nowhere/train", TMPDIR=str(tmp_path / "link"))
    assert (done.returncode, done.stderr.count("\n")) == (127, 1)
    assert [path.name for path in (home.state / "dlqueue" / ARRIVED).iterdir()] == ["1.json"]
    assert list(home.tmp.iterdir()) == []


def test_a_program_finds_its_run_folder_from_wherever_it_goes(home: Home, tmp_path: Path) -> None:
    """A temporary folder may be named from here; the program's variable says where it is."""
    named = os.path.relpath(home.tmp, ROOT)
    done = home.dlqueue("run", "sh", "-c", 'cd /; test -d "$DLQUEUE_RUN_DIR"', TMPDIR=named)
    assert done.returncode == 0


def test_settings_without_a_byte_are_written_again(home: Home) -> None:
    """A full disk may have left such a file, which would send each command to a site's history."""
    own = home.state / "dlqueue"
    own.mkdir(parents=True)
    (own / "dlqueue.toml").touch()
    assert "your first `dlqueue run" in home.dlqueue("explain", "1").stderr
    home.dlqueue("run", "--quiet", "true")
    assert home.dlqueue("explain", "1").returncode == 0


def test_settings_that_could_not_be_written_are_not_there(own: Path, full: Full) -> None:
    """The error names the file, and nothing of it stays; the next run writes it."""
    with full(), pytest.raises(OSError, match=r"dlqueue\.toml"):
        folder()
    assert [path.name for path in own.iterdir()] == [ARRIVED]
    assert folder() == str(own)
    assert load_for_history(None).state_dir == own


def _run(program: str) -> dict[str, Any]:
    """A run's document, as its end has it."""
    with Watched([program], "/", None) as watched:
        return watched.ended(0, (1.0, 0.1))


def _entered(own: Path) -> list[tuple[int, str]]:
    take_in(own)
    with open_history(own / "history.db") as history:
        return history.conn.execute("SELECT job_id, job_name FROM runs ORDER BY job_id").fetchall()


def test_a_note_of_the_last_number_that_fails_costs_a_number_and_no_run(
    own: Path, full: Full
) -> None:
    """A later run never has the number of one that is in the history or waits for it."""
    folder()
    assert [keep(str(own), _run(name)) for name in ("a.py", "b.py")] == [1, 2]
    assert _entered(own) == [(1, "a.py"), (2, "b.py")]
    assert keep(str(own), _run("c.py")) == 3
    lost = _run("lost.py")
    with full():
        assert keep(str(own), lost) == f"{own}: {os.strerror(errno.EFBIG)}"
    assert keep(str(own), _run("d.py")) == 4
    assert _entered(own) == [(1, "a.py"), (2, "b.py"), (3, "c.py"), (4, "d.py")]
    assert [path.name for path in (own / ARRIVED).iterdir()] == []


@pytest.mark.parametrize("is_entered", [True, False])
def test_an_empty_note_of_the_last_number_is_found_again(own: Path, is_entered: bool) -> None:
    """An earlier release may have left it so: the runs that are there say what was given."""
    folder()
    for name in ("a.py", "b.py"):
        keep(str(own), _run(name))
    if is_entered:
        take_in(own)
    (own / "last_run").write_text("")
    assert keep(str(own), _run("c.py")) == 3
    assert (own / "last_run").read_text() == "3\n"
    assert _entered(own) == [(1, "a.py"), (2, "b.py"), (3, "c.py")]


def test_no_number_is_made_up_beside_a_history_that_cannot_be_read(own: Path) -> None:
    """Without the note of the last one it may be another run's: the run is not kept."""
    folder()
    (own / "history.db").write_bytes(b"damaged" * 1000)
    said = keep(str(own), _run("a.py"))
    assert said == f"{own}/history.db: file is not a database"
    (own / "last_run").write_text("7\n")
    assert keep(str(own), _run("b.py")) == 8


def test_the_end_line_says_why_a_run_is_not_kept(
    own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file system without locks is not a full one; in JSON the run has no number."""
    folder()
    monkeypatch.setattr(fcntl, "flock", _not_here)
    document = _run("a.py")
    said = keep(str(own), document)
    assert isinstance(said, str)
    assert end_line(said, document, None).endswith(
        f"; not kept: {own}: {os.strerror(errno.ENOSYS)}"
    )
    assert json.loads(end_json(said, document, None, []))["run"] is None


def _not_here(*_: Any) -> None:
    raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))


def test_a_run_that_cannot_be_read_now_waits_on(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others are entered; what is no run's document goes."""
    folder()
    for name in ("a.py", "b.py"):
        keep(str(own), _run(name))
    (own / ARRIVED / "x.json").write_text("no document")
    real = Path.read_bytes

    def read(path: Path) -> bytes:
        if path.name == "1.json":
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return real(path)

    with monkeypatch.context() as failing:
        failing.setattr(Path, "read_bytes", read)
        assert _entered(own) == [(2, "b.py")]
    assert [path.name for path in (own / ARRIVED).iterdir()] == ["1.json"]
    assert _entered(own) == [(1, "a.py"), (2, "b.py")]
