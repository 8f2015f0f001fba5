"""A state folder with a spool, and records to put into it."""

import copy
import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

GOLDEN = Path(__file__).parent.parent / "golden" / "spool" / "v1.json"
COUNTERS = len(json.loads(GOLDEN.read_text())["counters"])
Spool = Callable[..., Path]


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """Where the history will be; its spool exists."""
    (tmp_path / "spool").mkdir()
    return tmp_path / "history.db"


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    """Puts the golden record into the spool, changed by section; returns the file."""
    golden = json.loads(GOLDEN.read_text())

    def put(name: str = "a.json", *, record_id: str | None = None, **sections: Any) -> Path:
        body = copy.deepcopy(golden)
        if record_id is not None:
            body["record_id"] = record_id
        for section, value in sections.items():
            body[section] = {**body[section], **value} if isinstance(value, dict) else value
        path = tmp_path / "spool" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(body))
        return path

    return put


def insert(conn: sqlite3.Connection, table: str, **columns: Any) -> None:
    """One row; columns that are not named are empty."""
    names, places = ", ".join(columns), ", ".join("?" * len(columns))
    conn.execute(f"INSERT INTO {table} ({names}) VALUES ({places})", list(columns.values()))


def add_run(conn: sqlite3.Connection, number: int, **columns: Any) -> None:
    """One run; its columns but for the needed ones are empty."""
    row = {
        "id": number,
        "record_id": f"r{number}",
        "cluster": "c",
        "job_id": number,
        "restart": 0,
        "node": "n",
        "state": "COMPLETED",
        "source": "epilog",
        "ingested_s": 1.0,
        "end_s": float(number),
        "elapsed_s": 60.0,
        **columns,
    }
    insert(conn, "runs", **row)


def add_counter(
    conn: sqlite3.Connection, run: int, name: str, value: float | None, source: str = "s"
) -> None:
    """One counter of a run."""
    known = "SELECT id FROM counter_names WHERE name = ? AND source = ?"
    if conn.execute(known, (name, source)).fetchone() is None:
        insert(conn, "counter_names", name=name, unit="1", source=source)
    (counter,) = conn.execute(known, (name, source)).fetchone()
    insert(conn, "counters", run=run, counter=counter, value=value)


def add_decision(conn: sqlite3.Connection, token: str, **columns: Any) -> None:
    """One decision that nobody was told of; its columns but for the needed ones are empty."""
    row = {
        "token": token,
        "state": "claimed",
        "decided_s": 1.0,
        "mode": "act",
        "holdout": 0,
        "action": "leave",
        "reason": "",
        "factor": 1.0,
        "edits": "{}",
        **columns,
    }
    insert(conn, "decisions", **row)
