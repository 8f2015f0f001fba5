"""Slurm gives numbers of jobs again that retention has removed: new runs, though of an old name."""

import json
from pathlib import Path

import pytest

from slurm_ext.history.ingest.spool_folder import ingest_folder
from slurm_ext.history.store import schema
from slurm_ext.history.store.retention import forget
from slurm_ext.history.store.store import History, open_history
from tests.history.conftest import Spool

LONG_AGO_S, NOW_S = 1000.0, 2e9


def delivered(history: History, spool: Spool, start_s: float, source: str = "epilog") -> int:
    """Runs that come of a record of ten seconds."""
    told = {"source": source, "state": "COMPLETED"}
    file = spool(times={"start_s": start_s, "end_s": start_s + 10}, outcome=told)
    return ingest_folder(history, file.parent, now_s=NOW_S).taken


def starts(history: History) -> list[float]:
    """Starts of all runs."""
    return [start_s for (start_s,) in history.conn.execute("SELECT start_s FROM runs")]


def test_a_later_run_of_a_forgotten_name_is_taken(history: History, spool: Spool) -> None:
    """The old record is known before and after that, and once the later run is forgotten too."""
    assert delivered(history, spool, LONG_AGO_S) == 1
    for later_s in (NOW_S, NOW_S + 60):
        assert forget(history, later_s) == 1
        assert delivered(history, spool, LONG_AGO_S) == 0
        assert starts(history) == []
        assert delivered(history, spool, later_s) == 1
        assert starts(history) == [later_s]
        assert delivered(history, spool, LONG_AGO_S) == 0
        assert starts(history) == [later_s]


@pytest.mark.parametrize(("after_s", "taken"), [(60.0, 0), (600.0, 1)])
def test_slurms_word_is_of_a_later_run_beyond_two_clocks_difference(
    history: History, spool: Spool, after_s: float, taken: int
) -> None:
    """A forgotten run may have been told by a node, whose clock was another."""
    delivered(history, spool, LONG_AGO_S)
    forget(history, NOW_S)
    assert delivered(history, spool, LONG_AGO_S + after_s, "reconcile") == taken


def test_runs_that_an_earlier_version_forgot_are_over(
    database: Path, spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their ends were not kept: what starts after the update is new, what started before is not."""
    record = json.loads(spool().read_text())["record_id"]
    before = schema.MIGRATIONS[: schema.MIGRATIONS.index(schema.ends_of_forgotten_runs)]
    with monkeypatch.context() as earlier:
        earlier.setattr(schema, "MIGRATIONS", before)
        with open_history(database) as history:
            history.conn.execute("INSERT INTO forgotten VALUES (?)", (record,))
    with open_history(database) as history:
        (updated_s,) = history.conn.execute("SELECT over_s FROM forgotten").fetchone()
        assert delivered(history, spool, updated_s - 60) == 0
        assert delivered(history, spool, updated_s + 60) == 1
        assert starts(history) == [updated_s + 60]
