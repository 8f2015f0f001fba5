"""Retention ends at one moment, for every table."""

from pathlib import Path

import pytest

from slurm_ext.history.store import retention, store
from slurm_ext.history.store.retention import forget
from slurm_ext.history.store.store import History, open_history
from tests.history.conftest import add_counter, add_decision, add_run, insert
from tests.history.store.rows_by_hand import column


def add_move(history: History, name: str, at_s: float) -> None:
    """One action of a loop."""
    texts = dict.fromkeys(("kind", "mode", "subject", "done", "why", "before", "after"), "x")
    insert(history.conn, "moves", move_id=name, at_s=at_s, **texts)


def test_a_history_that_is_there_keeps_its_owner(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new one is the folder's owner's; who opens it later, be it root, gives it to nobody."""
    given: list[Path] = []
    monkeypatch.setattr(store, "chown_to_parent", given.append)
    for _ in range(2):
        open_history(database).close()
        assert given == [database]


def test_retention_of_each_table_ends_at_the_same_moment(history: History) -> None:
    """What is of that very moment stays; a run without an end goes by its arrival."""
    conn = history.conn
    for number, end_s, ingested_s in (
        (1, 99.9, 500.0),
        (2, 100.0, 0.0),
        (3, None, 99.9),
        (4, None, 100.0),
    ):
        add_run(conn, number, end_s=end_s, ingested_s=ingested_s)
        add_counter(conn, number, "cpu_user", 1.0)
        insert(conn, "corunners", run=number, job_id=9)
        insert(conn, "loader_runs", run=number)
    for token, decided_s in (("old", 99.9), ("edge", 100.0), ("of 1", 5.0), ("of 2", 5.0)):
        add_decision(conn, token, decided_s=decided_s)
    conn.execute("UPDATE runs SET decision = 'of ' || id")
    for name, at_s in (("old", 99.9), ("edge", 100.0)):
        add_move(history, name, at_s)
    insert(conn, "set_aside", name="n", source="s", reason="r", aside_s=1.0)
    assert forget(history, 100.0) == 2
    assert column(history, "SELECT id FROM runs ORDER BY id") == [2, 4]
    for table in ("counters", "corunners", "loader_runs"):
        assert column(history, f"SELECT run FROM {table} ORDER BY run") == [2, 4]
    known = conn.execute("SELECT record_id, over_s FROM forgotten ORDER BY 1").fetchall()
    assert known == [("r1", 99.9), ("r3", 99.9)]  # its end, or its arrival
    assert column(history, "SELECT token FROM decisions ORDER BY token") == ["edge", "of 2"]
    assert column(history, "SELECT move_id FROM moves") == ["edge"]
    assert column(history, "SELECT name FROM set_aside") == ["n"]
    assert forget(history, 100.0) == 0


@pytest.mark.parametrize("many", [0, 1, 2, 3, 4, 5])
def test_retention_goes_on_until_nothing_old_is_left(
    history: History, monkeypatch: pytest.MonkeyPatch, many: int
) -> None:
    """Two at a time here; of runs and of actions, whether the last chunk is full or not."""
    assert retention._CHUNK == 1000
    monkeypatch.setattr(retention, "_CHUNK", 2)
    for number in range(1, many + 1):
        add_run(history.conn, number)
        add_move(history, f"m{number}", 1.0)
    assert forget(history, 100.0) == many
    assert column(history, "SELECT count(*) FROM runs") == [0]
    assert column(history, "SELECT count(*) FROM moves") == [0]
    assert column(history, "SELECT count(*) FROM forgotten") == [many]
