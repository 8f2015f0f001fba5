import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurm_ext.control.loops import action_log as ledger_file
from slurm_ext.control.loops.action_log import ActionLog
from slurm_ext.core.actions import Action, encode_action

DAY_S = 86400.0
WRITE = """
import sys
from pathlib import Path
from slurm_ext.control.loops.action_log import ActionLog
from slurm_ext.core.actions import Action
for number in range(50):
    ActionLog(Path(sys.argv[1]), "queue").write([Action(
        move_id=f"{sys.argv[2]}-{number}", at_s=1.0, kind="queue", mode="act", subject="7",
        done="nice=1", why="x" * 3000)])
"""


def a_move(name: str = "m1") -> Action:
    """Something that was done to a job."""
    return Action(
        move_id=name, at_s=1.0, kind="queue", mode="act", subject="7", done="nice=1", why="because"
    )


def names(folder: Path) -> list[str]:
    """The ids of all moves that were written, by file and line."""
    lines = [line for file in sorted(folder.iterdir()) for line in file.read_text().splitlines()]
    return [json.loads(line)["move_id"] for line in lines]


@pytest.fixture
def full(tmp_path: Path) -> Iterator[Path]:
    """A state folder whose disk has a few bytes left."""
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8k", "tmpfs", str(disk)], check=True)
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


def test_moves_are_lines_of_their_day(tmp_path: Path) -> None:
    """A file a kind and UTC day; not for other users to read."""
    now = [DAY_S - 1]
    ledger = ActionLog(tmp_path, "queue", clock=lambda: now[0])
    ledger.write([a_move("a"), a_move("b")])
    now[0] = DAY_S
    ledger.write([a_move("c")])
    ledger.write([])
    files = sorted((tmp_path / "moves").iterdir())
    assert [file.name for file in files] == ["queue-19700101.jsonl", "queue-19700102.jsonl"]
    assert names(tmp_path / "moves") == ["a", "b", "c"]
    assert files[0].stat().st_mode & 0o007 == 0


def test_a_torn_line_does_not_join_the_next(tmp_path: Path) -> None:
    """What an earlier writer left half done stays one bad line."""
    ledger = ActionLog(tmp_path, "queue", clock=lambda: 0.0)
    ledger.write([a_move("a")])
    (file,) = (tmp_path / "moves").iterdir()
    whole = file.read_bytes()
    file.write_bytes(whole + whole[:30])
    ledger.write([a_move("b")])
    lines = file.read_text().splitlines(keepends=True)
    assert lines == [
        encode_action(a_move("a")),
        whole[:30].decode() + "\n",
        encode_action(a_move("b")),
    ]


@pytest.mark.root
def test_a_full_disk_stops_no_loop(full: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Said once; with room again every move is there, none lost."""
    ledger = ActionLog(full, "queue", clock=lambda: 0.0)
    with caplog.at_level(logging.WARNING):
        for number in range(60):
            ledger.write([a_move(f"m{number}")])
    assert len(caplog.records) == 1
    assert "actions are kept in memory" in caplog.text
    assert ledger.kept > 0
    subprocess.run(["mount", "-o", "remount,size=1m", str(full)], check=True)
    ledger.write([a_move("last")])
    assert ledger.kept == 0
    (file,) = (full / "moves").iterdir()
    told = [line for line in file.read_text().splitlines() if line.endswith("}")]
    wanted = {f"m{number}" for number in range(60)} | {"last"}
    assert {json.loads(line)["move_id"] for line in told} == wanted


def test_what_waits_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A disk that is full for a week does not fill the memory too; the loss is told."""
    monkeypatch.setattr(ledger_file, "MOST_KEPT", 3)
    (tmp_path / "moves").write_text("in the way")
    ledger = ActionLog(tmp_path, "queue", clock=lambda: 0.0)
    for number in range(5):
        ledger.write([a_move(f"m{number}")])
    assert ledger.kept == 3
    assert "more than 3 actions wait; the oldest are lost" in caplog.text
    (tmp_path / "moves").unlink()
    ledger.write([])
    assert names(tmp_path / "moves") == ["m2", "m3", "m4"]


def test_a_move_that_cannot_be_told_stops_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A mistake of a loop is said in the log; its other moves are written."""
    bad = Action(at_s=1.0, kind="war", mode="act", subject="7", done="x", why="y")
    ActionLog(tmp_path, "queue").write([bad, a_move("a")])
    assert "kind is one of" in caplog.text
    assert names(tmp_path / "moves") == ["a"]
    with pytest.raises(ValueError, match="there are pair, queue"):
        ActionLog(tmp_path, "war")


@pytest.mark.parametrize("how", ["link", "pipe"])
def test_it_writes_only_into_files(
    tmp_path: Path, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A link or a pipe in the file's place is not followed, nor waited for."""
    (tmp_path / "moves").mkdir()
    file = tmp_path / "moves" / "queue-19700101.jsonl"
    if how == "link":
        file.symlink_to(tmp_path / "elsewhere")
    else:
        os.mkfifo(file)
    ledger = ActionLog(tmp_path, "queue", clock=lambda: 0.0)
    ledger.write([a_move()])
    assert ledger.kept == 1
    assert not (tmp_path / "elsewhere").exists()
    assert "actions are kept in memory" in caplog.text


def test_two_writers_do_not_mix_their_lines(tmp_path: Path) -> None:
    """Two processes of one kind, which no lock keeps apart: every line is whole."""
    words = [sys.executable, "-c", WRITE, str(tmp_path)]
    both = [subprocess.Popen([*words, name]) for name in ("a", "b")]
    assert [process.wait() for process in both] == [0, 0]
    wanted = [f"{name}-{number}" for name in ("a", "b") for number in range(50)]
    assert sorted(names(tmp_path / "moves")) == sorted(wanted)


@pytest.mark.root
def test_the_keeper_may_read_what_root_wrote(tmp_path: Path) -> None:
    """Folder and files belong to whom the state folder belongs to."""
    os.chown(tmp_path, 65534, 65534)
    ActionLog(tmp_path, "queue").write([a_move()])
    owners = {
        path.stat().st_uid for path in ((tmp_path / "moves"), *(tmp_path / "moves").iterdir())
    }
    assert owners == {65534}
