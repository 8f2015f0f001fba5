"""Outcomes, gain and what dlqueue knows of itself: exact answers from a few rows."""

import sqlite3
from contextlib import closing
from math import log
from typing import Any

import pytest

from slurm_ext.core.records import Level
from slurm_ext.core.stats import FEWEST
from slurm_ext.history.store.store import History
from slurm_ext.history.views import columns, gain, outcomes, self_metrics
from slurm_ext.history.views.outcomes import Residual, fair_outcomes, predicted_of
from slurm_ext.history.views.self_metrics import accuracy_of, read_self_metrics
from tests.history.conftest import add_decision, add_run, insert


def an_outcome(history: History, number: int, achieved: float, **columns: Any) -> None:
    """A claimed decision with its run: 100 was predicted of the job as written, 200 as changed."""
    conn, token = history.conn, f"d{number}"
    rates = {"before_samples_per_s": 100.0, "before_low": 90.0, "before_high": 120.0}
    after = {"after_samples_per_s": 200.0, "after_low": 180.0, "after_high": 240.0}
    row = {
        "user": "ada",
        "action": "change",
        "level": "same script",
        "runs": 3,
        "factor": 1.5,
        **rates,
        **after,
    }
    add_decision(conn, token, **{**row, "job_id": number, **columns})
    add_run(conn, number, decision=token)
    insert(conn, "loader_runs", run=number, samples_per_s=achieved)


@pytest.mark.parametrize(
    ("columns", "acted"),
    [
        ({}, True),
        ({"holdout": 1}, False),
        ({"mode": "advise"}, False),
        ({"action": "leave"}, False),
    ],
)
def test_an_outcome_is_of_the_shape_that_ran(
    history: History, columns: dict[str, Any], acted: bool
) -> None:
    """The job as changed only where dlqueue acted; else as it was written."""
    an_outcome(history, 1, 150.0, **columns)
    figures = (200.0, 180.0, 240.0) if acted else (100.0, 90.0, 120.0)
    predicted, low, high = figures
    assert fair_outcomes(history.conn, history.path, 9) == [
        Residual(
            predicted=predicted,
            low=low,
            high=high,
            achieved=150.0,
            level=Level.SCRIPT,
            runs=3,
            factor=1.5,
            user="ada",
            acted=acted,
            as_written_low=90.0,
            decision=1,
        )
    ]


TWO = {
    "factor_beside": 3.0,
    "before_else_samples_per_s": 40.0,
    "before_else_low": 30.0,
    "before_else_high": 55.0,
    "after_else_samples_per_s": 50.0,
    "after_else_low": 45.0,
    "after_else_high": 60.0,
}


@pytest.mark.parametrize("holdout", [0, 1])
@pytest.mark.parametrize(
    ("met", "achieved", "beside"),
    [(0, 55.0, False), (1, 150.0, True), (None, 60.0, True), (None, 101.0, False)],
)
def test_an_outcome_is_judged_by_what_was_told_of_the_world_that_it_met(
    history: History, holdout: int, met: int | None, achieved: float, beside: bool
) -> None:
    """Where its record does not know, by the nearer rate; the factor is of that world, too."""
    an_outcome(history, 1, achieved, crowded=0, holdout=holdout, **TWO)
    history.conn.execute("UPDATE loader_runs SET crowded = ?", (met,))
    (found,) = fair_outcomes(history.conn, history.path, 9)
    own = (100.0, 90.0, 120.0) if holdout else (200.0, 180.0, 240.0)
    crowded = (40.0, 30.0, 55.0) if holdout else (50.0, 45.0, 60.0)
    assert (found.predicted, found.low, found.high) == (crowded if beside else own)
    assert (found.crowded, found.factor) == (beside, 3.0 if beside else 1.5)
    assert found.as_written_low == (30.0 if beside else 90.0)
    (judged,) = predicted_of(history.conn, history.path, 1).values()
    assert judged["beside"] == beside


def test_what_is_expected_beside_others_has_cores_of_its_own_as_its_other_world(
    history: History,
) -> None:
    """A job whose last runs met others, with a run that did and one that did not."""
    for number, met in enumerate((1, 0), 1):
        an_outcome(history, number, 50.0, crowded=1, action="leave", **TWO)
        history.conn.execute("UPDATE loader_runs SET crowded = ? WHERE run = ?", (met, number))
    alone, beside = fair_outcomes(history.conn, history.path, 9)
    assert (beside.predicted, beside.crowded, beside.factor) == (100.0, True, 3.0)
    assert (alone.predicted, alone.crowded, alone.factor) == (40.0, False, 1.5)


def test_what_was_achieved_is_one_process_of_the_whole_run(history: History) -> None:
    """As predictions are: of the whole job's rate, over all its run, where that is known."""
    an_outcome(history, 1, 150.0)
    history.conn.execute("UPDATE loader_runs SET whole_samples_per_s = 260.0, ranks = 2")
    assert [one.achieved for one in fair_outcomes(history.conn, history.path, 9)] == [130.0]
    history.conn.execute("UPDATE loader_runs SET ranks = NULL")
    assert [one.achieved for one in fair_outcomes(history.conn, history.path, 9)] == [150.0]


def test_outcomes_are_the_newest_claimed_ones(history: History) -> None:
    """Of jobs that are the decision's own; an array's task is; without a prediction it is none."""
    for number in (1, 2, 3, 4, 5, 6):
        an_outcome(history, number, float(number))
    history.conn.execute("UPDATE decisions SET state = 'proposed' WHERE id = 2")
    history.conn.execute("UPDATE decisions SET job_id = 99 WHERE id = 3")
    history.conn.execute("UPDATE decisions SET job_id = 90 WHERE id = 4")
    history.conn.execute("UPDATE runs SET array_job_id = 90 WHERE id = 4")
    history.conn.execute("UPDATE decisions SET after_samples_per_s = NULL WHERE id = 5")
    history.conn.execute(
        "UPDATE decisions SET holdout = 1, before_samples_per_s = NULL WHERE id = 6"
    )
    assert [one.achieved for one in fair_outcomes(history.conn, history.path, 9)] == [4.0, 1.0]


def test_outcomes_of_a_user_are_the_same_in_pages(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Decisions are parted, never the runs of one; those without an outcome end nothing."""
    monkeypatch.setattr(outcomes, "_PAGE", 2)
    for number in range(1, 10):
        an_outcome(history, number, 200.0 + number, user="ada")
        for node in (100, 200):
            add_run(history.conn, number + node, decision=f"d{number}")
            rate = 0.0 if number in (4, 5, 6) else 400.0 - node
            insert(history.conn, "loader_runs", run=number + node, samples_per_s=rate)
    history.conn.execute("DELETE FROM loader_runs WHERE run IN (4, 5, 6)")
    an_outcome(history, 10, 1.0, user="bob")
    found = outcomes.outcomes_of_user(history.conn, history.path, "ada")
    assert [(one.decision, one.achieved) for one in found] == [
        (number, 200.0 + number) for number in (9, 8, 7, 3, 2, 1)
    ]
    assert outcomes.outcomes_of_user(history.conn, history.path, "ada", 2) == found[:2]


def test_the_log_begins_again_while_outcomes_are_judged(history: History) -> None:
    """No read of the history lasts while one outcome after the other is looked at."""
    for number in (1, 2, 3):
        an_outcome(history, number, 150.0, user="ada")
    with closing(sqlite3.connect(history.path)) as reader:
        walk = outcomes._of_user(reader, "ada")
        assert next(walk).decision == 3
        history.conn.execute("PRAGMA busy_timeout = 0")
        busy, *_ = history.conn.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        assert not busy
        assert len(list(walk)) == 2


def test_the_gain_compares_the_changed_with_those_left_as_written(history: History) -> None:
    """Logarithms of rate over prediction as written; outcomes without a rate count in neither."""
    for number, (achieved, holdout) in enumerate(
        ((200.0, 0), (150.0, 0), (100.0, 1), (120.0, 1), (0.0, 0)), 1
    ):
        an_outcome(history, number, achieved, holdout=holdout)
    an_outcome(history, 6, 500.0, mode="advise")
    an_outcome(history, 7, 500.0, action="leave")
    an_outcome(history, 8, 500.0, before_samples_per_s=0.0)
    an_outcome(history, 9, 500.0, after_samples_per_s=0.0)
    found = gain.estimate_gain(history.conn)
    logs = log(2.0), log(1.5), log(1.2)
    assert (found.changed.n, found.control.n) == (2, 2)
    rows = list(history.conn.execute(gain.decisions_by("1 = 1") + " ORDER BY decision"))
    assert [holdout for holdout, _, _ in rows] == [0, 0, 1, 1]
    assert [x for _, x, _ in rows] == pytest.approx([logs[0], logs[1], 0.0, logs[2]])
    assert [predicted for _, _, predicted in rows] == pytest.approx([log(2.0)] * 4)
    only = gain.estimate_gain(history.conn, "run = ?", [1])
    assert (only.changed.n, only.control.n, only.ratio) == (1, 0, None)
    assert gain.gain_json(only) is None


def test_a_decision_counts_once_in_the_gain(history: History) -> None:
    """The mean of its runs."""
    an_outcome(history, 1, 100.0)
    history.conn.execute("UPDATE decisions SET job_id = 90")
    history.conn.execute("UPDATE runs SET array_job_id = 90")
    add_run(history.conn, 2, array_job_id=90, decision="d1")
    insert(history.conn, "loader_runs", run=2, samples_per_s=400.0)
    ((_, x, _),) = history.conn.execute(gain.decisions_by("1 = 1"))
    assert x == pytest.approx(log(2.0))
    assert gain.estimate_gain(history.conn).changed.n == 1


def test_the_gain_as_json(history: History) -> None:
    """How many of each, the ratio and its bounds, each under its own name."""
    for number in range(1, 2 * FEWEST + 2):
        holdout = number % 2
        rate = (100.0 if holdout else 200.0) + number
        an_outcome(history, number, rate, holdout=holdout)
    found = gain.estimate_gain(history.conn)
    shown = gain.gain_json(found)
    assert shown is not None
    assert found.ratio is not None
    assert (shown["changed"], shown["control"]) == (FEWEST, FEWEST + 1)
    assert (shown["ratio"], shown["low"], shown["high"]) == (
        found.ratio.value,
        found.ratio.low,
        found.ratio.high,
    )
    assert 1.7 < shown["low"] < shown["ratio"] < shown["high"] < 2.2


def test_a_logarithm_of_what_has_none_is_none() -> None:
    """Nothing, less, text and NULL, as SQLite's own has it."""
    made = [gain._ln(value) for value in (1, 2.0, 0, -1.0, "2", None)]
    assert made == [0.0, log(2.0), None, None, None, None]


def test_what_dlqueue_knows_of_itself(history: History) -> None:
    """Its newest predictions, its gain, how many files it set aside, how far it read journals."""
    nothing = read_self_metrics(history.conn, history.path)
    assert (nothing.beliefs, nothing.set_aside, nothing.journals) == (None, 0, {})
    assert (nothing.gain.changed.n, nothing.gain.ratio) == (0, None)
    an_outcome(history, 1, 220.0)
    an_outcome(history, 2, 50.0, holdout=1)
    for name in ("a", "b", "c"):
        insert(history.conn, "set_aside", name=name, source="s", reason="r", aside_s=1.0)
    for name, offset in (("j", 5), ("k", 6)):
        insert(history.conn, "journals", name=name, offset=offset)
    found = read_self_metrics(history.conn, history.path)
    assert found.beliefs is not None
    assert (found.beliefs.outcomes, found.beliefs.coverage) == (2, 0.5)
    assert found.beliefs.error == pytest.approx(0.3)
    assert found.beliefs.drift is None
    assert (found.gain.changed.n, found.gain.control.n) == (1, 1)
    assert (found.set_aside, found.journals) == (3, {"j": 5, "k": 6})
    assert (self_metrics.NEWEST_BELIEFS, gain.NEWEST) == (200, 5000)


@pytest.mark.parametrize(
    ("own", "others", "coverage"), [(50.0, 200.0, 2 / 3), (200.0, 50.0, 1 / 3)]
)
def test_one_users_sweep_is_a_third_of_how_well_dlqueue_knows(
    history: History, monkeypatch: pytest.MonkeyPatch, own: float, others: float, coverage: float
) -> None:
    """It neither spoils the coverage that all others have nor hides that theirs is bad."""
    monkeypatch.setattr(self_metrics, "NEWEST_BELIEFS", 30)
    for number in range(60):
        user = f"u{number % 3}" if number < 30 else "eve"
        an_outcome(history, number + 1, others if number < 30 else own, user=user)
    found = read_self_metrics(history.conn, history.path)
    assert found.beliefs is not None
    assert found.beliefs.outcomes == 30
    assert found.beliefs.coverage == pytest.approx(coverage)


@pytest.mark.parametrize(
    ("rates", "error", "coverage"),
    [
        ([120.0], 0.2, 0.0),
        ([80.0], 0.2, 0.0),
        ([100.0, 110.0, 150.0], 0.1, 2 / 3),
        ([100.0, -5.0, 0.0], 0.0, 1.0),
        ([0.5], 0.995, 0.0),
    ],
)
def test_the_error_is_the_median_of_how_far_off(
    rates: list[float], error: float, coverage: float
) -> None:
    """Above and below alike; what achieved nothing does not count."""
    found = accuracy_of([residual(rate) for rate in rates])
    assert found is not None
    assert found.outcomes == sum(rate > 0 for rate in rates)
    assert found.error == pytest.approx(error)
    assert found.coverage == pytest.approx(coverage)


def test_nothing_predicted_is_nothing_to_judge() -> None:
    """No outcome, one of a prediction of nothing, and a drift from an error of nothing."""
    assert accuracy_of([]) is None
    assert accuracy_of([residual(5.0, predicted=0.0)]) is None
    assert accuracy_of([residual(5.0, predicted=0.5)]) is not None
    exact = accuracy_of([residual(120.0)] * FEWEST + [residual(100.0)] * (3 * FEWEST))
    assert exact is not None
    assert exact.drift is None
    assert exact.error == 0.0


def residual(achieved: float, predicted: float = 100.0) -> Residual:
    """An outcome of a prediction that was sure to a tenth of 100."""
    return Residual(
        predicted=predicted,
        low=90.0,
        high=110.0,
        achieved=achieved,
        level=Level.SCRIPT,
        runs=3,
        factor=1.0,
        acted=False,
    )


class WithoutLogarithm:
    """A connection of an SQLite that was built without mathematics."""

    def __init__(self) -> None:
        self.made: list[tuple[Any, ...]] = []

    def execute(self, _: str) -> None:
        """Refuse, as SQLite does."""
        raise sqlite3.OperationalError("no such function: ln")

    def create_function(self, *function: Any, **options: Any) -> None:
        """Note what is defined."""
        self.made.append((*function, options))


def test_functions_are_made_where_sqlite_has_none() -> None:
    """Each has one argument and gives the same for the same; where SQLite has it, it stays."""
    without: Any = WithoutLogarithm()
    gain.with_logarithm(without)
    functions = {"ln": gain._ln, "floor": gain._floor}
    assert without.made == [(name, 1, f, {"deterministic": True}) for name, f in functions.items()]
    conn = sqlite3.connect(":memory:")
    gain.with_logarithm(conn)
    assert conn.execute("SELECT ln(1)").fetchone() == (0.0,)
    conn.close()


def test_training_reads_from_the_first_second_on(history: History) -> None:
    """Of 1970: no run is too old by default."""
    for number, end_s in ((1, 0.0), (2, 0.5), (3, 9e17)):
        add_run(history.conn, number, end_s=end_s)
        insert(history.conn, "loader_runs", run=number)
    assert [row[0] for row in columns.training_rows(history)] == [9e17, 0.5, 0.0]
