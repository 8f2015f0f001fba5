"""Types of history.db's columns, kept by triggers: one value of another type stops its readers.

Triggers, because STRICT tables would be written anew (200,000 runs: 12 s of CPU and 750 MiB of
writing, against 3.5 s), and no SQLite before 3.37 reads them.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlite_utils import Database

# SQLite orders any number before any text, and that before any blob: a comparison tells the type,
# for a tenth of what a list of `typeof` costs each insert.
_FAULTS = {
    "INTEGER": "({0} <> CAST({0} AS INTEGER))",
    "REAL": "({0} NOT BETWEEN -1e300 AND 1e300)",  # beyond, what is computed from it overflows
    "TEXT": "({0} >= x'')",
    "BLOB": "({0} < x'')",
}
_EVENTS = ("insert", "update")
_OURS = ("id", "run", "counter")  # keys that are made here


def check_types(db: "Database", table: str) -> None:
    """Refuse values of another type than their column's, from now on; clear those that are there.

    A later migration that adds a column calls this again.
    """
    faults = _faults(db, table)
    if db.execute(f"SELECT 1 FROM {table} WHERE {' OR '.join(faults.values())} LIMIT 1").fetchone():
        _clear(db, table, faults)
    refuse_others(db, table)


def refuse_others(db: "Database", table: str) -> None:
    """Refuse values of another type than their column's, from now on."""
    cases = " ".join(
        f"WHEN {fault} THEN RAISE(ABORT, '{table}.{name} takes no such value')"
        for name, fault in _faults(db, table, "NEW.").items()
    )
    drop_checks(db, table)
    for event in _EVENTS:
        db.execute(
            f"CREATE TRIGGER {table}_{event}_types BEFORE {event} ON {table}"
            f" BEGIN SELECT CASE {cases} END; END"
        )


def checked_tables(db: "Database") -> list[str]:
    """Tables whose columns refuse values of another type."""
    named = "type = 'trigger' AND name = tbl_name || '_insert_types'"
    tables = db.execute(f"SELECT tbl_name FROM sqlite_master WHERE {named}").fetchall()
    return [table for (table,) in tables]


def drop_checks(db: "Database", table: str) -> None:
    """Take any value in a table's columns: SQLite drops no column that a trigger names."""
    for event in _EVENTS:
        db.execute(f"DROP TRIGGER IF EXISTS {table}_{event}_types")


def _clear(db: "Database", table: str, faults: dict[str, str]) -> None:
    """Delete rows whose faulty column must not be NULL; clear the faulty values of the others."""
    for column in db.table(table).columns:
        if column.notnull and column.name in faults:
            db.execute(f"DELETE FROM {table} WHERE {faults[column.name]}")
    cleared = ", ".join(f"{name} = iif({fault}, NULL, {name})" for name, fault in faults.items())
    db.execute(f"UPDATE {table} SET {cleared} WHERE {' OR '.join(faults.values())}")


def _faults(db: "Database", table: str, of: str = "") -> dict[str, str]:
    """SQL that is true where a column's value is none of its type; null is of every type."""
    return {
        column.name: _FAULTS[column.type].format(f"{of}{column.name}")
        for column in db.table(table).columns
        if column.name not in _OURS
    }
