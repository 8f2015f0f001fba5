"""Questions to a history of a few rows: exact answers, in their order, at their bounds."""

import inspect
import sqlite3
from collections.abc import Iterator
from math import log
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.core.records import Level
from slurm_ext.core.stats import FEWEST
from slurm_ext.history.ingest.rows import deflated
from slurm_ext.history.store.names import KEY_COLUMNS, LOADER_COLUMNS
from slurm_ext.history.store.store import History, open_history
from slurm_ext.history.views import columns, finished_jobs, gain, lookup, queries, self_metrics
from slurm_ext.history.views.finished_jobs import finished_since, last_id, newest_finished
from slurm_ext.history.views.lookup import Residual, outcomes, owner_of, similar_runs
from slurm_ext.history.views.queries import Filter
from slurm_ext.history.views.recent_runs import recent_runs, recent_runs_of
from slurm_ext.history.views.self_metrics import accuracy_of, read_self_metrics
from tests.history.conftest import add_counter, add_decision, add_run, insert


@pytest.fixture
def history(database: Path) -> Iterator[History]:
    """An empty one."""
    with open_history(database) as found:
        yield found


def ids(rows: Iterator[dict[str, Any]]) -> list[int]:
    """Of runs."""
    return [row["id"] for row in rows]


def test_a_filter_takes_what_meets_all_of_it(history: History) -> None:
    """Newest end first, of one end the last to come in; a bound in time belongs to it."""
    people = (
        ("ada", "gpu", 10.0),
        ("ada", "cpu", 30.0),
        ("bob", "gpu", 20.0),
        ("ada", "gpu", 30.0),
    )
    for number, (user, partition, end_s) in enumerate(people, 1):
        add_run(history.conn, number, user=user, partition=partition, end_s=end_s)
    for chosen, wanted in (
        (Filter(), [4, 2, 3, 1]),
        (Filter(user="ada"), [4, 2, 1]),
        (Filter(partition="gpu"), [4, 3, 1]),
        (Filter(since_s=20.0), [4, 2, 3]),
        (Filter(since_s=20.5), [4, 2]),
        (Filter(user="ada", partition="gpu", since_s=10.0), [4, 1]),
        (Filter(user="ada", partition="gpu", since_s=11.0), [4]),
        (Filter(limit=2), [4, 2]),
        (Filter(limit=0), []),
        (Filter(user="eve"), []),
    ):
        assert ids(queries.runs(history, chosen)) == wanted
        assert queries.count(history, chosen) == len(wanted)


def test_a_run_has_its_loaders_columns(history: History) -> None:
    """The names and types of them are told without any run, in the order of the rows."""
    assert queries.column_names(history)[0] == "id"
    add_run(history.conn, 1, user="ada")
    insert(history.conn, "loader_runs", run=1, workers=3, samples_per_s=2.5, key_kind=9)
    (row,) = queries.runs(history, Filter())
    assert list(row) == queries.column_names(history)
    wanted = ("ada", 3, 2.5, 9)
    names = ("user", "loader_workers", "loader_samples_per_s", "key_kind")
    assert tuple(row[name] for name in names) == wanted
    kinds = queries.column_kinds(history)
    assert [kinds[name] for name in names] == ["TEXT", "INTEGER", "REAL", "INTEGER"]
    assert kinds["end_s"] == "REAL"
    assert set(kinds) == set(row)


def test_everything_of_a_job(history: History) -> None:
    """Runs by try and node, each with its evidence, and the newest decision; else None."""
    assert queries.job(history, 7) is None
    conn = history.conn
    places = ((1, 1, "a", 7), (2, 0, "b", 7), (3, 0, "a", 7), (4, 0, "a", 8))
    for number, restart, node, job_id in places:
        add_run(conn, number, job_id=job_id, restart=restart, node=node)
    for name, source, value in (("b", "x", 1.0), ("a", "y", 2.0), ("a", "x", None)):
        add_counter(conn, 3, name, value, source)
    add_counter(conn, 4, "z", 9.0)
    insert(conn, "corunners", run=3, job_id=6, overlap_s=2.0, shared_cpus=1, shared_gpus="G,H")
    insert(conn, "corunners", run=3, job_id=5)
    insert(conn, "timeline", run=3, samples=deflated({"rows": [1]}))
    insert(conn, "probes", run=3, summaries=deflated({"faults": ["f"]}))
    found = queries.job(history, 7)
    assert found is not None
    assert (found["job_id"], found["decision"]) == (7, None)
    assert [run["id"] for run in found["runs"]] == [3, 2, 1]
    first, second, _ = found["runs"]
    evidence = {name: first[name] for name in ("counters", "corunners", "timeline", "probe")}
    assert evidence == {
        "counters": [
            {"name": "a", "unit": "1", "source": "x", "value": None},
            {"name": "a", "unit": "1", "source": "y", "value": 2.0},
            {"name": "b", "unit": "1", "source": "x", "value": 1.0},
        ],
        "corunners": [
            {"job_id": 5, "overlap_s": None, "shared": None},
            {
                "job_id": 6,
                "overlap_s": 2.0,
                "shared": {"cpus": 1, "sockets": None, "gpus": ["G", "H"]},
            },
        ],
        "timeline": {"rows": [1]},
        "probe": {"faults": ["f"]},
    }
    assert (second["counters"], second["corunners"]) == ([], [])
    assert (second["timeline"], second["probe"]) == (None, None)


def test_an_array_is_asked_by_its_first_id(history: History) -> None:
    """Its tasks are its runs; a task has the array's decision; one without a run is found too."""
    conn = history.conn
    add_run(conn, 1, job_id=91, array_job_id=90)
    add_decision(conn, "old", job_id=90)
    add_decision(conn, "new", job_id=90)
    add_decision(conn, "lone", job_id=50)
    for job_id, runs, token in ((90, [1], "new"), (91, [1], "new"), (50, [], "lone")):
        found = queries.job(history, job_id)
        assert found is not None
        assert ([run["id"] for run in found["runs"]], found["decision"]["token"]) == (runs, token)


def test_a_run_is_recorded_by_job_and_try(history: History) -> None:
    """Both must be its own."""
    add_run(history.conn, 1, job_id=7, restart=2)
    assert queries.recorded(history, 7, 2)
    assert not queries.recorded(history, 7, 1)
    assert not queries.recorded(history, 2, 7)


def test_rows_for_the_server_and_for_training(history: History) -> None:
    """From the id after one's last; ends in [after, before), by end and then by arrival."""
    conn = history.conn
    for number, end_s in ((1, 30.0), (2, 10.0), (3, 20.0), (4, 20.0)):
        add_run(conn, number, end_s=end_s, user="ada", partition="p")
        insert(conn, "loader_runs", run=number, workers=number, key_script=7)
    assert columns.loader_count(history) == 4
    server = columns.SERVER_COLUMNS
    rows = [dict(zip(server, row, strict=True)) for row in columns.loader_rows(history, 2)]
    assert [(row["id"], row["workers"], row["key_script"]) for row in rows] == [
        (3, 3, 7),
        (4, 4, 7),
    ]
    assert [row[0] for row in columns.loader_rows(history)] == [1, 2, 3, 4]
    found = [
        dict(zip(columns.TRAINING_COLUMNS, row, strict=True))
        for row in columns.training_rows(history, after_s=10.0, before_s=30.0)
    ]
    assert [row["workers"] for row in found] == [2, 3, 4]
    names = ("end_s", "elapsed_s", "state", "user", "partition")
    assert [found[0][name] for name in names] == [10.0, 60.0, "COMPLETED", "ada", "p"]
    assert len(list(columns.training_rows(history))) == 4
    assert server == ("id", *KEY_COLUMNS, *LOADER_COLUMNS)
    assert (*names, *KEY_COLUMNS, *LOADER_COLUMNS) == columns.TRAINING_COLUMNS


@pytest.mark.parametrize("chunk", [1, 2, 3])
def test_streams_lose_nothing_between_chunks(
    history: History, monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    """Whether the rows fill the last one or not."""
    monkeypatch.setattr(columns, "_ARRAY_ROWS", chunk)
    monkeypatch.setattr(finished_jobs, "_ROWS", chunk)
    for number in (1, 2, 3):
        add_run(history.conn, number)
        insert(history.conn, "loader_runs", run=number)
    assert [row[0] for row in columns.loader_rows(history)] == [1, 2, 3]
    assert ids(newest_finished(history, 3)) == [1, 2, 3]


def test_finished_jobs_with_all_their_columns(history: History) -> None:
    """Each under its own name; the newest id is that of any run, 0 without."""
    assert last_id(history) == 0
    known = {
        "cluster": "k",
        "job_id": 5,
        "restart": 2,
        "user": "ada",
        "job_name": "t",
        "account": "a",
        "partition": "p",
        "cpus": 3,
        "num_nodes": 4,
        "gpus": 6,
        "mem_bytes": 7,
        "time_limit_s": 8.0,
        "submit_s": 9.0,
        "start_s": 10.0,
        "end_s": 11.0,
        "elapsed_s": 12.0,
    }
    add_run(history.conn, 1, **known)
    add_run(history.conn, 2, end_s=None)
    assert list(newest_finished(history, 9)) == [{"id": 1, **known}]
    assert list(finished_since(history, 0)) == [{"id": 1, **known}]
    assert list(finished_since(history, 1)) == []
    assert last_id(history) == 2


def test_finished_jobs_in_the_order_of_their_ends(history: History) -> None:
    """The newest by end, the first of them first; since an id, in the order they came in."""
    for number, end_s in ((1, 30.0), (2, 10.0), (3, 20.0), (4, 10.0)):
        add_run(history.conn, number, end_s=end_s)
    assert ids(newest_finished(history, 3)) in ([2, 3, 1], [4, 3, 1])
    assert ids(newest_finished(history, 4)) == [2, 4, 3, 1]
    assert ids(newest_finished(history, 0)) == []
    assert ids(finished_since(history, 1)) == [2, 3, 4]


def test_recent_runs_have_what_people_look_up(history: History) -> None:
    """Cores and workers that it had, its rate, its end; none for a key that is not there."""
    add_run(history.conn, 1, job_id=5, node="m", end_s=9.0)
    loader = {"cores": 3.0, "workers": 2, "samples_per_s": 4.5}
    insert(history.conn, "loader_runs", run=1, key_script=7, key_kind=8, **loader)
    wanted = {
        "job_id": 5,
        "node": "m",
        "ended_s": 9.0,
        "cpus": 3.0,
        "num_workers": 2,
        "samples_per_s": 4.5,
    }
    keys = {Level.SCRIPT: 7, Level.KIND: 9}
    assert recent_runs(history.conn, "same script", keys) == [wanted]
    assert recent_runs(history.conn, "same kind of program", keys) == []
    assert recent_runs(history.conn, "this cluster", keys) == []
    assert recent_runs(history.conn, "same script", keys, known_by_s=0.5) == []
    assert recent_runs_of(history.path, "same script", keys) == [wanted]
    assert recent_runs_of(history.path, None, keys) == []
    assert recent_runs_of(history.path.with_name("none.db"), "same script", keys) == []


def test_similar_runs_of_each_level(history: History) -> None:
    """Sixteen at most, the newest first; whether a GPU was emulated is true or false."""
    needed = ("samples_per_s", "batch_size", "cores", "accel_samples_per_s")
    for number in range(1, 19):
        add_run(history.conn, number)
        figures = dict.fromkeys((*needed, "fetch_wall_s", "fetch_cpu_s"), 1.0)
        key = {"key_script": 7} if number != 18 else {"key_kind": 7}
        emulated = number % 2
        insert(
            history.conn,
            "loader_runs",
            run=number,
            workers=number,
            emulated=emulated,
            **figures,
            **key,
        )
    found = similar_runs(history.path, {Level.SCRIPT: 7, Level.KIND: 7, Level.CLUSTER: 7})
    assert [run.workers for run in found[Level.SCRIPT]] == list(range(17, 1, -1))
    assert [run.emulated for run in found[Level.SCRIPT]][:2] == [True, False]
    assert [run.workers for run in found[Level.KIND]] == [18]
    assert found[Level.CLUSTER] == []
    assert [
        run.workers for run in similar_runs(history.path, {Level.SCRIPT: 7}, 1)[Level.SCRIPT]
    ] == [17]


def test_the_owner_of_a_job(history: History) -> None:
    """By whatever came last of its runs and decisions; ids that no job can have are nobody's."""
    conn, path = history.conn, history.path
    add_run(conn, 1, job_id=5, uid=10, ingested_s=1.0)
    add_run(conn, 2, job_id=6, uid=11, ingested_s=1.0)
    assert owner_of(conn, path, 5) == 10
    add_decision(conn, "d", job_id=5, uid=20, claimed_s=2.0)
    add_decision(conn, "e", job_id=7, uid=30, claimed_s=2.0)
    assert (owner_of(conn, path, 5), owner_of(conn, path, 7)) == (20, 30)
    add_run(conn, 3, job_id=5, restart=1, uid=40, ingested_s=3.0)
    add_run(conn, 4, job_id=5, restart=2, uid=None, ingested_s=4.0)
    assert owner_of(conn, path, 5) == 40
    add_run(conn, 5, job_id=0, uid=50)
    add_run(conn, 6, job_id=(1 << 63) - 1, uid=60)
    assert (owner_of(conn, path, 0), owner_of(conn, path, (1 << 63) - 1)) == (50, 60)
    assert owner_of(conn, path, -1) is owner_of(conn, path, 1 << 63) is None
    assert owner_of(conn, path, 99) is None


def an_outcome(history: History, number: int, achieved: float, **columns: Any) -> None:
    """A claimed decision with its run: 100 was predicted of the job as written, 200 as changed."""
    conn, token = history.conn, f"d{number}"
    rates = {"before_samples_per_s": 100.0, "before_low": 90.0, "before_high": 120.0}
    after = {"after_samples_per_s": 200.0, "after_low": 180.0, "after_high": 240.0}
    row = {"action": "change", "level": "same script", "runs": 3, "factor": 1.5, **rates, **after}
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
    assert outcomes(history.path) == [
        Residual(
            predicted=predicted,
            low=low,
            high=high,
            achieved=150.0,
            level=Level.SCRIPT,
            runs=3,
            factor=1.5,
            acted=acted,
        )
    ]


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
    assert [one.achieved for one in outcomes(history.path)] == [4.0, 1.0]
    assert [one.achieved for one in outcomes(history.path, 2)] == [4.0]
    assert inspect.signature(outcomes).parameters["limit"].default == 1000
    assert lookup.outcomes_of(history.conn, history.path, 0) == []


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


def test_a_logarithm_is_made_where_sqlite_has_none() -> None:
    """Of one argument, always the same for the same; where there is one, nothing is made."""
    without: Any = WithoutLogarithm()
    gain.with_logarithm(without)
    assert without.made == [("ln", 1, gain._ln, {"deterministic": True})]
    conn = sqlite3.connect(":memory:")
    gain.with_logarithm(conn)
    assert conn.execute("SELECT ln(1)").fetchone() == (0.0,)
    conn.close()


def test_training_reads_from_the_first_second_on(history: History) -> None:
    """Of 1970: no run is too old by default."""
    for number, end_s in ((1, 0.0), (2, 0.5), (3, 9e17)):
        add_run(history.conn, number, end_s=end_s)
        insert(history.conn, "loader_runs", run=number)
    assert [row[0] for row in columns.training_rows(history)] == [0.0, 0.5, 9e17]
