"""Boundaries of the history: the last value that counts, and the first that does not."""

from pathlib import Path
from typing import Any

import pytest

from slurm_ext.core.records import Level
from slurm_ext.core.stats import FEWEST
from slurm_ext.history.ingest.decisions import drop_unclaimed, unclaimed
from slurm_ext.history.ingest.insert import SAME_END_S, final_state
from slurm_ext.history.ingest.spool_folder import ingest_folder
from slurm_ext.history.store.retention import forget
from slurm_ext.history.store.store import History, open_history
from slurm_ext.history.views.finished_jobs import finished_since, newest_finished
from slurm_ext.history.views.outcomes import Residual
from slurm_ext.history.views.recent_runs import MOST, recent_runs
from slurm_ext.history.views.self_metrics import accuracy_of
from tests.history.conftest import Spool, add_run


def ids(history: History) -> list[int]:
    """Runs that are there."""
    return [number for (number,) in history.conn.execute("SELECT id FROM runs ORDER BY id")]


@pytest.mark.parametrize("many", [1, 999, 1000, 1001, 2000])
def test_retention_keeps_a_run_that_ended_at_the_moment(database: Path, many: int) -> None:
    """Older ones go, however many chunks they are; their record ids stay known."""
    with open_history(database) as history:
        with history.transaction() as conn:
            for number in range(1, many + 2):
                add_run(conn, number)
        assert forget(history, many + 1.0) == many
        assert ids(history) == [many + 1]
        (known,) = history.conn.execute("SELECT count(*) FROM forgotten").fetchone()
    assert known == many


@pytest.mark.parametrize(("apart_s", "kept"), [(SAME_END_S - 0.5, 1), (SAME_END_S, 2)])
def test_an_imported_run_of_the_same_end_is_replaced(
    database: Path, spool: Spool, apart_s: float, kept: int
) -> None:
    """Two clocks of one end differ by less than two minutes; by as much, it is another run."""
    with open_history(database) as history:
        with history.transaction() as conn:
            columns = {"cluster": "cluster", "job_id": 1042, "source": "sacct"}
            add_run(conn, 1, **columns, end_s=1000.0 + apart_s)
            add_run(conn, 2, **{**columns, "job_id": 1043}, end_s=1000.0)
        spool(times={"end_s": 1000.0})
        assert ingest_folder(history, database.parent / "spool", now_s=2e9).taken == 1
        rows = history.conn.execute("SELECT count(*) FROM runs WHERE job_id = 1042").fetchone()
        assert rows == (kept,)
        assert 2 in ids(history)


@pytest.mark.parametrize(
    ("seen", "source", "slurm", "final"),
    [
        ("COMPLETED", "epilog", "UNKNOWN", "COMPLETED"),
        ("REQUEUED", "node", "CANCELLED", "REQUEUED"),
        ("FAILED", "epilog", "COMPLETED", "FAILED"),
        ("COMPLETED", "epilog", "FAILED", "COMPLETED"),
        *(("FAILED", "epilog", end, end) for end in ("CANCELLED", "TIMEOUT", "NODE_FAIL")),
        ("FAILED", "epilog", "OUT_OF_MEMORY", "OUT_OF_MEMORY"),
        ("UNKNOWN", "epilog", "FAILED", "FAILED"),
        ("COMPLETED", "node", "FAILED", "FAILED"),
        ("COMPLETED", "reconcile", "FAILED", "FAILED"),
    ],
)
def test_the_final_state_of_a_run(seen: str, source: str, slurm: str, final: str) -> None:
    """The epilog knows best what failed by itself, Slurm what was ended from outside."""
    assert final_state(seen, source, slurm) == final


def test_a_proposal_is_unclaimed_only_after_the_moment(database: Path) -> None:
    """One decided just then may still become a job; claimed ones and those to keep stay."""
    with open_history(database) as history:
        for token, decided_s, state in (
            ("old", 1.0, "proposed"),
            ("kept", 1.0, "proposed"),
            ("now", 2.0, "proposed"),
            ("claimed", 1.0, "claimed"),
        ):
            history.db.table("decisions").insert(
                {
                    "token": token,
                    "decided_s": decided_s,
                    "state": state,
                    "mode": "act",
                    "holdout": 0,
                    "action": "leave",
                    "reason": "",
                    "factor": 1,
                    "edits": "",
                }
            )
        assert sorted(unclaimed(history, before_s=2.0)) == ["kept", "old"]
        assert drop_unclaimed(history, before_s=2.0, keep=["kept"]) == 1
        assert drop_unclaimed(history, before_s=2.0, keep=["kept"]) == 0
        tokens = history.conn.execute("SELECT token FROM decisions ORDER BY token").fetchall()
    assert tokens == [("claimed",), ("kept",), ("now",)]


def residual(achieved: float) -> Residual:
    """An outcome of a prediction of 100, between 90 and 110."""
    return Residual(
        predicted=100.0,
        low=90.0,
        high=110.0,
        achieved=achieved,
        level=Level.SCRIPT,
        runs=3,
        factor=1.0,
        acted=False,
    )


@pytest.mark.parametrize(
    ("achieved", "inside"), [(89.9, 0), (90.0, 1), (110.0, 1), (110.1, 0), (0.0, None)]
)
def test_an_interval_holds_its_ends(achieved: float, inside: int | None) -> None:
    """Both; an outcome of nothing is none."""
    accuracy = accuracy_of([residual(achieved)])
    assert (accuracy and accuracy.coverage) == inside


def test_drift_needs_enough_of_the_newest_quarter() -> None:
    """FEWEST of them; the newest quarter is compared with the rest, not with itself."""
    newest, rest = [residual(120.0)] * FEWEST, [residual(110.0)] * (3 * FEWEST)
    accuracy = accuracy_of([*newest, *rest])
    assert accuracy is not None
    assert accuracy.drift == pytest.approx(2.0)
    fewer = accuracy_of([*newest, *rest][:-1])
    assert fewer is not None
    assert fewer.drift is None


def test_recent_runs_are_those_known_then_and_no_more_than_shown(database: Path) -> None:
    """The newest first; a run that came in at that very moment counts, one after it does not."""
    with open_history(database) as history:
        for number in range(1, MOST + 3):
            add_run(history.conn, number, ingested_s=float(number))
            history.db.table("loader_runs").insert({"run": number, "key_script": 7})
        keys = {Level.SCRIPT: 7}
        newest = recent_runs(history.conn, "same script", keys)
        then = recent_runs(history.conn, "same script", keys, known_by_s=2.0)
    assert [run["job_id"] for run in newest] == list(range(MOST + 2, 2, -1))
    assert [run["job_id"] for run in then] == [2, 1]


def test_a_finished_job_of_many_nodes_is_one_job(database: Path) -> None:
    """Its first record counts; another restart or cluster is another job."""
    with open_history(database) as history:
        others: tuple[dict[str, Any], ...] = (
            {},
            {"node": "n2"},
            {"restart": 1},
            {"cluster": "d"},
            {"end_s": None},
        )
        for number, columns in enumerate(others, 1):
            add_run(history.conn, number, **{"job_id": 1, **columns})
        history.conn.execute("UPDATE runs SET job_id = 9 WHERE end_s IS NULL")
        assert [job["id"] for job in newest_finished(history, 10)] == [1, 3, 4]
        assert [job["id"] for job in newest_finished(history, 2)] == [3, 4]
        assert [job["id"] for job in newest_finished(history, 10, before_s=3.0)] == [1, 3]
        assert [job["id"] for job in finished_since(history, 0)] == [1, 3, 4]
        assert [job["id"] for job in finished_since(history, 3)] == [4]
