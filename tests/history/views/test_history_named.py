"""A history that cannot be read is named in every error, whichever question met it."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from slurm_ext.core.errors import HistoryError
from slurm_ext.core.records import Level
from slurm_ext.history.ingest import actions, decisions, insert, job_decisions, journal
from slurm_ext.history.store import pages
from slurm_ext.history.store.reading import APPLICATION_ID, connect
from slurm_ext.history.store.store import History, open_history
from slurm_ext.history.views import (
    columns,
    finished_jobs,
    gpu_runs,
    lookup,
    outcomes,
    period_view,
    queries,
    self_metrics,
    shared_runs,
)

EVERYONE = queries.Filter()
PERIOD = period_view.Period(since_s=0.0, until_s=1.0)
LISTED = job_decisions.SubmittedJob(job_id=1, uid=2, job_name="n", early_s=0.0, late_s=1.0)
QUESTIONS: dict[str, Callable[[History], object]] = {
    "loader rows": lambda h: list(columns.loader_rows(h)),
    "training rows": lambda h: list(columns.training_rows(h)),
    "loader count": columns.loader_count,
    "newest finished": lambda h: list(finished_jobs.newest_finished(h, 1)),
    "finished since": lambda h: list(finished_jobs.finished_since(h, 1)),
    "last id": pages.last_id,
    "gpu runs": lambda h: gpu_runs.gpu_runs(h, Level.SCRIPT, 1),
    "period": lambda h: period_view.select_runs(h, PERIOD, lambda _: None),
    "runs": lambda h: list(queries.runs(h, EVERYONE)),
    "count": lambda h: queries.count(h, EVERYONE),
    "column names": queries.column_names,
    "column kinds": queries.column_kinds,
    "job": lambda h: queries.job(h, 1),
    "recorded": lambda h: queries.recorded_nodes(h, 1, 0),
    "together": lambda h: list(shared_runs.together_rows(h)),
    "alone": lambda h: list(shared_runs.alone_rows(h)),
    "counters": lambda h: list(shared_runs.counters_of(h, [1])),
    "token": lambda h: job_decisions.token_of(h.conn, h.path, LISTED, "t"),
    "listed": lambda h: job_decisions.decision_of(h, LISTED),
    "fair outcomes": lambda h: outcomes.fair_outcomes(h.conn, h.path, 1),
    "users": lambda h: outcomes.users_since(h.conn, h.path, 1),
    "of a user": lambda h: outcomes.outcomes_of_user(h.conn, h.path, "ada"),
    "self": lambda h: self_metrics.read_self_metrics(h.conn, h.path),
    "actions": lambda h: actions.actions_of(h, 1),
    "unclaimed": lambda h: decisions.unclaimed(h, before_s=1.0),
    "decision": lambda h: decisions.decision(h, job_id=1),
    "elastic": decisions.elastic_jobs,
    "claim": lambda h: decisions.claim(h, "t", 1, uid=2, now_s=1.0),
    "offset": lambda h: journal.offset(h, "j"),
    "final state": lambda h: insert.apply_final_state(h, 1, 0, slurm="FAILED"),
}


@pytest.fixture
def closed(database: Path) -> History:
    """A history whose connection is gone."""
    history = open_history(database)
    history.conn.close()
    return history


@pytest.mark.parametrize("name", QUESTIONS)
def test_an_error_names_the_file(closed: History, name: str) -> None:
    """And says what SQLite said."""
    with pytest.raises(HistoryError) as error:
        QUESTIONS[name](closed)
    assert str(error.value) == f"{closed.path} cannot be used: Cannot operate on a closed database."


def test_an_error_by_path_names_it_too(tmp_path: Path) -> None:
    """Here a history without its tables."""
    path = tmp_path / "h.db"
    with sqlite3.connect(path) as conn:
        conn.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        conn.execute("CREATE TABLE migrations (name TEXT)")
    conn.close()
    with closing(connect(path)) as conn, pytest.raises(HistoryError) as error:
        lookup.similar_runs(conn, path, {Level.SCRIPT: 1})
    assert str(error.value).startswith(f"{path} ")


def test_metrics_after_the_outcomes_name_the_file(database: Path) -> None:
    """A table that is missing there is told as well."""
    with open_history(database) as history:
        history.conn.execute("DROP TABLE set_aside")
        with pytest.raises(HistoryError) as error:
            self_metrics.read_self_metrics(history.conn, history.path)
    assert str(error.value) == f"{database} cannot be used: no such table: set_aside"
