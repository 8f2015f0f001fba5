"""The ledger of moves in the history: what cluster loops did to jobs and nodes, each move once.

How far a file of `<state_dir>/moves/` was read is committed together with what was read; a move is
known by its id as well, so that a file read again adds nothing. A file whose day has long passed is
deleted once all of it is in.
"""

import json
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from slurm_ext.core.actions import Action, parse_action
from slurm_ext.core.errors import RecordError
from slurm_ext.history.ingest.journal import JournalReport, note_line, offset, whole_lines
from slurm_ext.history.store.reading import explaining
from slurm_ext.history.store.store import History

DAY_S = 86400.0
_NAME = re.compile(r"[a-z]+-(\d{8})\.jsonl")
_COLUMNS = (
    "move_id",
    "at_s",
    "kind",
    "mode",
    "subject",
    "job_id",
    "done",
    "why",
    "before",
    "after",
    "outcome",
)
# A later line of the same move tells what came of it, and nothing else.
_INSERT = (
    f"INSERT INTO moves ({', '.join(_COLUMNS)}) VALUES ({', '.join('?' * len(_COLUMNS))})"
    " ON CONFLICT (move_id) DO UPDATE SET outcome = excluded.outcome"
    " WHERE excluded.outcome IS NOT NULL"
)
_OF_JOB = (
    "SELECT * FROM moves WHERE job_id = ? OR job_id IN"
    " (SELECT array_job_id FROM runs WHERE job_id = ? AND array_job_id IS NOT NULL)"
    " ORDER BY at_s, id"
)
_NEWEST = "SELECT coalesce(max(id), 0) FROM moves"


def action_files(folder: Path) -> list[Path]:
    """The ledger's files, oldest day first; whatever else lies there is not looked at."""
    if not folder.is_dir():
        return []
    paths = [path for path in folder.iterdir() if _NAME.fullmatch(path.name)]
    return sorted((p for p in paths if p.is_file() and not p.is_symlink()), key=_day)


def record_actions(history: History, path: Path, *, now_s: float) -> JournalReport:
    """Enter what was appended to `path` since the last time; half a line waits for its rest.

    A line that is no move is noted in set_aside and passed; so is half a line whose writer will
    not come back, and then the file goes. Raises HistoryError, or OSError where it cannot be read.
    """
    over = _day(path) < time.strftime("%Y%m%d", time.gmtime(now_s - DAY_S))
    new = bad = 0
    name = f"moves/{path.name}"
    start = offset(history, name)
    size = path.stat().st_size
    if start > size:  # another file of this name: what is in already is known by its id
        start = 0
    while chunk := whole_lines(path, start, rest=over):
        moves, wrong = _read(history, path, chunk, now_s)
        start += len(chunk)
        new += _enter(history, moves, name, start)
        bad += wrong
    if over and start >= path.stat().st_size:
        _finish(history, path, name)
    return JournalReport(new=new, bad_lines=bad)


def actions_of(history: History, job_id: int) -> list[dict[str, Any]]:
    """Return the actions on a job, oldest first; an array's task has its array's too."""
    with explaining(history.path):
        return [_told(row) for row in history.db.query(_OF_JOB, [job_id, job_id])]


def _day(path: Path) -> str:
    return path.stem.rpartition("-")[2]


def _read(history: History, path: Path, chunk: bytes, now_s: float) -> tuple[list[Action], int]:
    moves, wrong = [], 0
    for line in chunk.splitlines(keepends=True):
        try:
            moves.append(parse_action(line))
        except RecordError as error:
            wrong += 1
            note_line(history, path, line, error, now_s)
    return moves, wrong


def _enter(history: History, moves: Sequence[Action], name: str, end: int) -> int:
    """Moves and how far the file has been read, in one transaction; how many were new."""
    with history.transaction() as conn:
        (before,) = conn.execute(_NEWEST).fetchone()
        conn.executemany(_INSERT, map(_row, moves))
        conn.execute("INSERT OR REPLACE INTO journals VALUES (?, ?)", (name, end))
        (after,) = conn.execute(_NEWEST).fetchone()
    return int(after - before)


def _finish(history: History, path: Path, name: str) -> None:
    """First forget how far it was read: between the two, a crash makes it only be read again."""
    with history.transaction() as conn:
        conn.execute("DELETE FROM journals WHERE name = ?", (name,))
    path.unlink()


def _row(move: Action) -> tuple[Any, ...]:
    """SQLite takes no half characters; what was not UTF-8 stays readable."""
    values = {name: getattr(move, name) for name in _COLUMNS}
    values["before"], values["after"] = json.dumps(move.before), json.dumps(move.after)
    return tuple(
        value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value
        for value in values.values()
    )


def _told(row: dict[str, Any]) -> dict[str, Any]:
    values = {name: row[name] for name in _COLUMNS}
    return {**values, "before": json.loads(row["before"]), "after": json.loads(row["after"])}
