import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.control.loops.action_log import ActionLog
from slurm_ext.core.actions import Action, encode_action
from slurm_ext.core.errors import HistoryError
from slurm_ext.history.ingest import actions as moves_file
from slurm_ext.history.ingest.actions import action_files, actions_of, record_actions
from slurm_ext.history.ingest.spool_folder import ingest_folder
from slurm_ext.history.store.retention import forget
from slurm_ext.history.store.store import History, open_history
from tests.history.conftest import Spool

DAY_S = 86400.0
TAKE = """
import os, signal, sys
from pathlib import Path
from slurm_ext.history.ingest import actions as moves
from slurm_ext.history.store.store import open_history
if sys.argv[3] == "after commit":
    moves._finish = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
else:
    moves.whole_lines = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)
if sys.argv[3] == "before unlink":
    from slurm_ext.history.ingest.journal import whole_lines
    moves.whole_lines = whole_lines
    Path.unlink = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
with open_history(Path(sys.argv[1])) as history:
    moves.record_actions(history, Path(sys.argv[2]), now_s=5 * 86400.0)
"""


def a_move(name: str, **changes: Any) -> Action:
    """Something that was done to job 1042."""
    values: dict[str, Any] = {
        "at_s": 10.0,
        "kind": "pair",
        "mode": "act",
        "subject": "1042",
        "job_id": 1042,
        "done": "starts beside 7",
        "why": "they go well together",
        "after": {"node": "n1"},
    }
    return Action(move_id=name, **{**values, **changes})


def take(history: History, now_s: float = 0.0) -> tuple[int, int]:
    """One look of the keeper; new moves and bad lines."""
    found = action_files(history.path.parent / "moves")
    reports = [record_actions(history, path, now_s=now_s) for path in found]
    return sum(one.new for one in reports), sum(one.bad_lines for one in reports)


def ids(history: History) -> list[str]:
    """All moves in the history."""
    return [one["move_id"] for one in history.db.query("SELECT * FROM moves ORDER BY at_s, id")]


@pytest.fixture
def ledger(tmp_path: Path) -> ActionLog:
    """Of pairs, on the first day."""
    return ActionLog(tmp_path, "pair", clock=lambda: 0.0)


def test_a_jobs_moves_are_told_in_order(database: Path, ledger: ActionLog) -> None:
    """Whatever order they were written in; other jobs' are not among them."""
    ledger.write(
        [a_move("b", at_s=20.0), a_move("a"), a_move("c", job_id=7), a_move("d", job_id=None)]
    )
    with open_history(database) as history:
        assert take(history) == (4, 0)
        first, second = actions_of(history, 1042)
        assert (first["move_id"], second["move_id"]) == ("a", "b")
        assert first == {name: getattr(a_move("a"), name) for name in Action.__slots__}


def test_an_arrays_task_has_its_arrays_moves(
    database: Path, ledger: ActionLog, spool: Spool
) -> None:
    """Loops may know an array by its first id only."""
    ledger.write([a_move("a")])
    file = spool(identity={"job_id": 1044, "array_job_id": 1042, "array_task_id": 2})
    with open_history(database) as history:
        ingest_folder(history, file.parent, now_s=0.0)
        take(history)
        assert [one["move_id"] for one in actions_of(history, 1044)] == ["a"]


def test_a_line_is_entered_once_and_half_a_line_waits(database: Path, ledger: ActionLog) -> None:
    """As the file grows; looking again adds nothing."""
    ledger.write([a_move("a")])
    (file,) = action_files(database.parent / "moves")
    second = encode_action(a_move("b"))
    with open_history(database) as history:
        with file.open("a") as stream:
            stream.write(second[:30])
        assert take(history) == (1, 0)
        assert take(history) == (0, 0)
        with file.open("a") as stream:
            stream.write(second[30:])
        assert take(history) == (1, 0)
        assert ids(history) == ["a", "b"]


def test_a_later_line_tells_the_outcome(database: Path, ledger: ActionLog) -> None:
    """The move stays one, as it was decided; what came of it is added, and not taken away."""
    ledger.write([a_move("a")])
    with open_history(database) as history:
        take(history)
        ledger.write([a_move("a", at_s=99.0, outcome="ran at 0.93 of its speed"), a_move("a")])
        assert take(history) == (0, 0)
        (told,) = actions_of(history, 1042)
    assert (told["at_s"], told["outcome"]) == (10.0, "ran at 0.93 of its speed")


def test_junk_is_noted_and_passed(database: Path, ledger: ActionLog) -> None:
    """A foreign or torn line is counted and told, and hides none of its neighbours."""
    ledger.write([a_move("a")])
    (file,) = action_files(database.parent / "moves")
    with file.open("ab") as stream:
        stream.write(b"hello\n\xff\xfe\n" + encode_action(a_move("x")).encode()[:40])
    ledger.write([a_move("b")])  # which ends the torn line first
    (file.parent / "README").write_text("nobody's")
    (file.parent / "pair-19700102.jsonl").symlink_to("/etc/passwd")
    with open_history(database) as history:
        assert take(history) == (2, 3)
        noted = history.conn.execute("SELECT name, reason FROM set_aside").fetchall()
        assert len(noted) == 3
        assert all(name.startswith("pair-19700101.jsonl-line-") for name, _ in noted)
        assert ids(history) == ["a", "b"]


def test_a_day_that_is_over_goes_when_all_of_it_is_in(database: Path, ledger: ActionLog) -> None:
    """Yesterday's may still grow at midnight; of an older one a torn end is noted."""
    ledger.write([a_move("a")])
    (file,) = action_files(database.parent / "moves")
    with open_history(database) as history:
        assert take(history, 1.9 * DAY_S) == (1, 0)
        assert file.exists()
        with file.open("a") as stream:
            stream.write("{torn")
        assert take(history, 2.1 * DAY_S) == (0, 1)
        assert not file.exists()
        assert history.conn.execute("SELECT count(*) FROM journals").fetchone() == (0,)
        assert take(history, 2.1 * DAY_S) == (0, 0)


@pytest.mark.parametrize("when", ["before commit", "after commit", "before unlink"])
def test_killed_anywhere_it_enters_each_move_once(
    database: Path, ledger: ActionLog, when: str
) -> None:
    """Between reading, commit, forgetting the offset and deleting the file."""
    ledger.write([a_move("a"), a_move("b")])
    (file,) = action_files(database.parent / "moves")
    open_history(database).close()
    words = [sys.executable, "-c", TAKE, str(database), str(file), when]
    assert subprocess.run(words, check=False).returncode == -signal.SIGKILL
    with open_history(database) as history:
        assert take(history, 5 * DAY_S) == ((2, 0) if when == "before commit" else (0, 0))
        assert ids(history) == ["a", "b"]
        assert not file.exists()


def test_a_move_is_entered_with_its_offset_or_not_at_all(
    database: Path, ledger: ActionLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error while entering takes both back."""
    ledger.write([a_move("a")])
    with open_history(database) as history:
        monkeypatch.setattr(moves_file, "_NEWEST", "SELECT 1 FROM nowhere")
        with pytest.raises(HistoryError, match="no such table"):
            take(history)
        monkeypatch.undo()
        assert take(history) == (1, 0)


def test_another_file_of_the_same_name_is_read_from_its_start(
    database: Path, ledger: ActionLog
) -> None:
    """A clock that was set back, or a folder restored from a copy, hides no move."""
    ledger.write([a_move("a"), a_move("b")])
    (file,) = action_files(database.parent / "moves")
    with open_history(database) as history:
        take(history)
        file.write_text(encode_action(a_move("c")))
        assert take(history) == (1, 0)
        assert ids(history) == ["a", "b", "c"]


def test_any_text_is_kept(database: Path, ledger: ActionLog) -> None:
    """Half characters of a job's name stop nothing."""
    ledger.write([a_move("a", why="\udcff said so", before={"\ud800": "\udfff"})])
    with open_history(database) as history:
        assert take(history) == (1, 0)
        (told,) = actions_of(history, 1042)
    assert told["why"] == "\\udcff said so"


def test_old_moves_go_with_the_rest(
    database: Path, ledger: ActionLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Retention is the history's, a short lock at a time."""
    monkeypatch.setattr("slurm_ext.history.store.retention._CHUNK", 2)
    ledger.write([a_move(f"m{n}", at_s=float(n)) for n in range(7)])
    with open_history(database) as history:
        take(history)
        forget(history, 5.0)
        assert ids(history) == ["m5", "m6"]
