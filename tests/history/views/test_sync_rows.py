"""Evidence of gradients' buckets, from record to the advisor's memory."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.core.errors import HistoryError
from slurm_ext.core.stalls.sync_run import sync_run
from slurm_ext.core.unsupported_loader import UnsupportedLoader
from slurm_ext.history.ingest.rows import sync_values
from slurm_ext.history.ingest.spool_folder import ingest_folder
from slurm_ext.history.store.names import SYNC_COLUMNS
from slurm_ext.history.store.store import History
from slurm_ext.history.views.sync_rows import sync_rows
from tests.builders import STARVED, SYNCHRONISED
from tests.core.test_sync_run import record
from tests.history.conftest import Spool, add_run, insert


def add(history: History, number: int, script: int | None = 7, **changes: Any) -> None:
    """One run with its evidence, of a script whose loader nothing is known of."""
    add_run(history.conn, number)
    doubted = {**asdict(STARVED), "emulated": 1, "doubt": int(UnsupportedLoader.ITERABLE)}
    insert(history.conn, "loader_runs", run=number, key_script=script, **doubted)
    values = sync_values(replace(SYNCHRONISED, **changes))
    columns = dict(zip((*SYNC_COLUMNS, "gradients"), values, strict=True))
    insert(history.conn, "sync_runs", run=number, **columns)


def test_a_run_comes_back_as_it_went_in(history: History) -> None:
    """Flags are flags, lists are lists; the newest run is the first."""
    add(history, 1)
    add(history, 2, caps="4096", takes_lists=False)
    newest, oldest = sync_rows(history, 0, 10)
    assert (newest.script, oldest.run) == (7, SYNCHRONISED)
    assert newest.run == replace(SYNCHRONISED, caps="4096", takes_lists=False)
    assert [row.id for row in sync_rows(history, oldest.id, 10)] == [newest.id]
    assert [row.id for row in sync_rows(history, 0, 1)] == [newest.id]


def test_a_run_has_its_loaders_batch_and_data(history: History) -> None:
    """What its batches take is comparable only with batches of as much work."""
    add(history, 1)
    history.conn.execute("UPDATE loader_runs SET batch_size = 64, data_key = 9")
    (row,) = sync_rows(history, 0, 10)
    assert row.run == replace(SYNCHRONISED, batch_size=64.0, data_key=9)


def test_runs_of_no_known_script_are_nobodys(history: History) -> None:
    """Their submission was not seen."""
    add(history, 1, script=None)
    assert list(sync_rows(history, 0, 10)) == []


def test_lists_that_do_not_come_back_are_passed_over(history: History) -> None:
    """One damaged run hides no other, and each run tells whose it is."""
    add(history, 1)
    add(history, 2)
    history.conn.execute("UPDATE sync_runs SET gradients = x'00' WHERE run = 2")
    history.conn.execute("UPDATE runs SET user = 'ada' WHERE id = 1")
    assert [(row.run, row.user) for row in sync_rows(history, 0, 10)] == [(SYNCHRONISED, "ada")]


def test_evidence_is_ingested_with_its_record(history: History, spool: Spool) -> None:
    """And goes with it."""
    spool(probe=record()["probe"])
    ingest_folder(history, Path(history.path).parent / "spool", now_s=1.0)
    history.conn.execute("UPDATE loader_runs SET key_script = 7")
    assert [row.run for row in sync_rows(history, 0, 10)] == [sync_run(record())]
    history.conn.execute("DELETE FROM runs")
    assert list(sync_rows(history, 0, 10)) == []


def test_a_history_of_before_says_that_it_is_old(history: History) -> None:
    """Until the history writer has brought it up to date."""
    history.conn.execute("DROP TABLE sync_runs")
    with pytest.raises(HistoryError, match="is from an older dlqueue"):
        next(sync_rows(history, 0, 10))
