"""A user's own part of a history: no query of the connection finds another's row."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from slurm_ext.core.errors import HistoryError, RefusedError
from slurm_ext.history.store.store import History, open_history
from slurm_ext.history.views.visible import Viewer, open_visible, refuse_others
from tests.history.conftest import add_counter, add_decision, add_run, insert
from tests.history.store.rows_by_hand import column

ADA = Viewer(user="ada", uid=1000)
ALL = Viewer(user="root", uid=0, sees_all=True)
TOKEN = "d1-{:016x}"


@pytest.fixture
def path(database: Path) -> Path:
    """Three runs of ada (the third from accounting) and three that are not hers, all with parts."""
    owners: list[tuple[str | None, int | None]] = [("ada", 1000), ("ada", 1000), ("ada", None)]
    owners += [("bob", 1001), ("ada", 2000), (None, None)]  # an earlier owner of ada's name
    with open_history(database) as history, history.transaction() as conn:
        conn.execute("CREATE TABLE of_a_later_release (secret TEXT)")
        conn.execute("INSERT INTO of_a_later_release VALUES ('bob')")
        for number, (user, uid) in enumerate(owners, 1):
            add_run(conn, number, user=user, uid=uid, decision=TOKEN.format(number))
            add_counter(conn, number, "cpu_user", 1.0)
            add_decision(
                conn, TOKEN.format(number), user=user, uid=uid, job_id=number, state="claimed"
            )
            insert(conn, "loader_runs", run=number, samples_per_s=1.0)
            insert(conn, "corunners", run=number, job_id=(number % 6) + 1)
            for table in ("timeline", "probes", "step_splits"):
                insert(conn, table, run=number)
            move = {"at_s": 1.0, "kind": "queue", "mode": "act", "subject": "s", "done": "d"}
            move |= {"why": "w", "before": "{}", "after": "{}", "job_id": number}
            insert(conn, "moves", move_id=f"m{number}", **move)
    return database


@pytest.fixture
def adas(path: Path) -> Iterator[History]:
    """The history as ada may see it."""
    with open_visible(path, ADA) as history:
        yield history


@pytest.mark.parametrize("table", ["runs", "decisions", "moves", "loader_runs", "counters"])
def test_a_user_finds_own_rows_alone(adas: History, table: str) -> None:
    """By name and uid: who had the name before is somebody else."""
    names = {"runs": "id", "decisions": "job_id", "moves": "job_id"}
    assert column(adas, f"SELECT {names.get(table, 'run')} FROM {table} ORDER BY 1") == [1, 2, 3]


def test_every_table_is_hidden_whoever_made_it(adas: History) -> None:
    """A table that a later release adds is empty until somebody says whose its rows are."""
    sql = (
        "SELECT name FROM main.sqlite_master WHERE type IN ('table', 'view')"
        " AND name NOT LIKE 'sqlite%' EXCEPT SELECT name FROM temp.sqlite_master"
    )
    assert column(adas, sql) == []
    assert column(adas, "SELECT secret FROM of_a_later_release") == []
    assert column(adas, "SELECT count(*) FROM main.of_a_later_release") == [1]


def test_another_users_job_beside_ones_own_has_no_number(adas: History) -> None:
    """That there was one is the user's to know, which one is not."""
    rows = adas.conn.execute("SELECT run, job_id FROM corunners ORDER BY run").fetchall()
    assert rows == [(1, 2), (2, 3), (3, None)]


def test_who_may_see_all_sees_all(path: Path) -> None:
    """Nothing stands before the tables."""
    with open_visible(path, ALL) as history:
        assert column(history, "SELECT id FROM runs ORDER BY id") == [1, 2, 3, 4, 5, 6]
        assert column(history, "SELECT name FROM temp.sqlite_master") == []


def test_a_name_is_data(path: Path) -> None:
    """A user called like a piece of SQL finds nobody's rows."""
    for name in ("ada' OR '1'='1", 'ada"; DROP TABLE runs; --', ""):
        with open_visible(path, Viewer(user=name, uid=1000)) as history:
            assert column(history, "SELECT id FROM runs") == []


@pytest.mark.parametrize("named", ["4", TOKEN.format(4)])
def test_anothers_job_is_refused_where_slurm_shows_it(path: Path, named: str) -> None:
    """With the reason; where PrivateData hides jobs, it is as if there were none."""
    with pytest.raises(RefusedError, match=f"{named} is not ada's job"):
        refuse_others(path, ADA, named)
    for viewer in (ALL, Viewer(user="ada", uid=1000, hides_others=True)):
        refuse_others(path, viewer, named)
    refuse_others(path, ADA, "77")


def test_other_users_are_named_by_who_sees_all_alone(path: Path) -> None:
    """Own jobs are everybody's to ask for."""
    ADA.must_see("ada")
    ALL.must_see(None)
    for user in (None, "bob"):
        with pytest.raises(RefusedError, match="operators alone"):
            ADA.must_see(user)


def test_a_history_that_is_none_stays_an_error(tmp_path: Path) -> None:
    """As without a viewer."""
    with pytest.raises(HistoryError, match="does not exist yet"):
        open_visible(tmp_path / "history.db", ADA)
