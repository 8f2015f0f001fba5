"""Long reads in pages: the same rows, of one moment, with the log free between two of them."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.history.store import pages
from slurm_ext.history.store.log_fold import fold_log
from slurm_ext.history.store.store import History, open_history
from slurm_ext.history.views import columns, finished_jobs
from slurm_ext.history.views.columns import loader_rows, training_rows
from slurm_ext.history.views.finished_jobs import newest_finished
from slurm_ext.history.views.shared_runs import alone_rows, together_rows
from tests.history.conftest import add_run, insert

RUNS = 40
READS: dict[str, Callable[[History], Iterator[Any]]] = {
    "training": training_rows,
    "server": loader_rows,
    "together": together_rows,
    "alone": alone_rows,
    "finished": lambda history: newest_finished(history, RUNS),
    "some finished": lambda history: newest_finished(history, RUNS // 3),
}


def run(history: History, number: int, end_s: float | None) -> None:
    """A run with its loader; every third had company."""
    add_run(history.conn, number, end_s=end_s, elapsed_s=50.0, user="ada", job_name="j")
    insert(history.conn, "loader_runs", run=number, samples_per_s=float(number))
    for partner in (1, 2) if number % 3 == 0 else ():
        insert(history.conn, "corunners", run=number, job_id=partner, overlap_s=30.0)


@pytest.fixture
def filled(database: Path) -> Iterator[History]:
    """Ends that rise, fall, repeat, and are not known."""
    with open_history(database) as history:
        for number in range(1, RUNS + 1):
            end_s = None if number % 11 == 0 else 1000.0 + number % 7 * (number % 2) + number // 20
            run(history, number, end_s)
        yield history


def short(patch: pytest.MonkeyPatch, runs: int) -> None:
    """Pages of so many."""
    patch.setattr(pages, "RUNS", runs)
    patch.setattr(columns, "_ARRAY_ROWS", runs)
    patch.setattr(finished_jobs, "_ROWS", runs)


@pytest.mark.parametrize("name", READS)
def test_pages_of_any_length_have_the_same_rows(
    filled: History, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """In the same order, each once, whatever runs end together."""
    whole = list(READS[name](filled))
    assert len(whole) >= 10
    for runs in (1, 3, RUNS - 4, RUNS):
        short(monkeypatch, runs)
        assert list(READS[name](filled)) == whole


@pytest.mark.parametrize("name", READS)
def test_the_log_can_be_folded_between_two_pages(
    filled: History, database: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """However long whoever reads takes over a row."""
    short(monkeypatch, 3)
    with open_history(database, read_only=True) as reader:
        rows = READS[name](reader)
        next(rows)
        with filled.transaction() as conn:
            conn.execute("INSERT INTO forgotten (record_id) VALUES ('meanwhile')")
        assert fold_log(filled, wait_s=0.0)
        assert database.with_name(f"{database.name}-wal").stat().st_size == 0
        assert next(rows)


@pytest.mark.parametrize("name", sorted({*READS} - {"server"}))
def test_runs_that_come_in_meanwhile_are_on_no_page(
    filled: History, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The picture is that of the beginning; the server takes them, as it goes by their ids."""
    whole = list(READS[name](filled))
    short(monkeypatch, 3)
    rows = READS[name](filled)
    found = [next(rows)]
    for number in range(RUNS + 1, RUNS + 20):
        run(filled, number, 1000.0 + number % 5)
    assert [*found, *rows] == whole


def test_a_page_is_a_range_of_one_index(filled: History) -> None:
    """No page looks at more of the history than its own runs, nor sorts them."""
    sql = f"SELECT r.id FROM runs r WHERE {pages.ON_PAGE} ORDER BY r.end_s DESC, r.id DESC"
    values = {"low_s": 0.0, "low_id": 0, "high_s": 1e9, "high_id": 0, "last": RUNS}
    (plan,) = filled.conn.execute(f"EXPLAIN QUERY PLAN {sql}", values).fetchall()
    assert "runs_end (end_s>? AND end_s<?)" in plan[-1]
