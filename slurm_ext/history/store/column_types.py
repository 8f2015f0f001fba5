"""Types of history.db's columns, kept by triggers: one value of another type stops its readers.

Triggers, because STRICT tables would be written anew (200,000 runs: 12 s of CPU and 750 MiB of
writing, against 3.5 s), and no SQLite before 3.37 reads them.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlite_utils import Database

_FITTING = {"INTEGER": ("integer",), "REAL": ("real", "integer"), "TEXT": ("text",)}
_EVENTS = ("insert", "update")
_OURS = ("id", "run", "counter")  # keys that are made here
_LARGEST = 1e300  # beyond is infinity, or overflows what is computed from it


def check_types(db: "Database", table: str) -> None:
    """Refuse values of another type than their column's, from now on; clear those that are there.

    A later migration that adds a column calls this again.
    """
    columns = [column for column in db.table(table).columns if column.name not in _OURS]
    faults = {column.name: _fault(column.name, column.type) for column in columns}
    if db.execute(f"SELECT 1 FROM {table} WHERE {' OR '.join(faults.values())} LIMIT 1").fetchone():
        _clear(db, table, faults, [column.name for column in columns if column.notnull])
    cases = " ".join(
        f"WHEN {_fault(f'NEW.{column.name}', column.type)}"
        f" THEN RAISE(ABORT, '{table}.{column.name} takes no such value')"
        for column in columns
    )
    drop_checks(db, table)
    for event in _EVENTS:
        db.execute(
            f"CREATE TRIGGER {table}_{event}_types BEFORE {event} ON {table}"
            f" BEGIN SELECT CASE {cases} END; END"
        )


def drop_checks(db: "Database", table: str) -> None:
    """Take any value in a table's columns: SQLite drops no column that a trigger names."""
    for event in _EVENTS:
        db.execute(f"DROP TRIGGER IF EXISTS {table}_{event}_types")


def _clear(db: "Database", table: str, faults: dict[str, str], needed: Iterable[str]) -> None:
    """Delete rows whose faulty column must not be NULL; clear the faulty values of the others."""
    for name in needed:
        db.execute(f"DELETE FROM {table} WHERE {faults[name]}")
    cleared = ", ".join(f"{name} = iif({fault}, NULL, {name})" for name, fault in faults.items())
    db.execute(f"UPDATE {table} SET {cleared} WHERE {' OR '.join(faults.values())}")


def _fault(value: str, kind: str) -> str:
    """SQL that is true where a value is none of its column's."""
    types = ", ".join(f"'{one}'" for one in (*_FITTING.get(kind, ("blob",)), "null"))
    fault = f"typeof({value}) NOT IN ({types})"
    return f"({fault} OR abs({value}) > {_LARGEST})" if kind == "REAL" else f"({fault})"
