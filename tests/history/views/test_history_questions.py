"""Questions for runs in a history of a few rows: exact answers, in their order, at their bounds."""

from collections.abc import Iterator
from typing import Any

import pytest

from slurm_ext.core.records import Level
from slurm_ext.history.ingest.rows import deflated
from slurm_ext.history.store.names import KEY_COLUMNS, LOADER_COLUMNS
from slurm_ext.history.store.pages import last_id
from slurm_ext.history.store.store import History
from slurm_ext.history.views import columns, finished_jobs, queries
from slurm_ext.history.views.finished_jobs import finished_since, newest_finished
from slurm_ext.history.views.job_efficiency import JobFilter, newest_jobs
from slurm_ext.history.views.lookup import runs_with_workers, similar_runs
from slurm_ext.history.views.queries import Filter
from slurm_ext.history.views.recent_runs import recent_runs
from tests.history.conftest import add_counter, add_decision, add_run, insert


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


def test_a_summary_that_does_not_come_back_hides_no_job(history: History) -> None:
    """One user's cut summary leaves his own job without its waiting, and every job listed."""
    add_run(history.conn, 1)
    add_run(history.conn, 2)
    insert(history.conn, "probes", run=1, summaries=b"cut")
    assert [job["job_id"] for job in newest_jobs(history, JobFilter(), 10)] == [2, 1]
    found = queries.job(history, 1)
    assert found is not None
    assert found["runs"][0]["probe"] is None


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


def test_one_number_of_two_clusters_is_two_jobs(history: History) -> None:
    """This cluster's job is the one meant; of other clusters' jobs, the one that ended last."""
    for number, (cluster, job_id, source, end_s) in enumerate(
        (
            ("cpu", 7, "epilog", 20.0),
            ("gpu", 7, "sacct", 30.0),
            ("tpu", 8, "sacct", 40.0),
            ("gpu", 8, "sacct", 50.0),
        ),
        1,
    ):
        told = {"cluster": cluster, "source": source, "end_s": end_s, "array_job_id": job_id + 90}
        add_run(history.conn, number, job_id=job_id, array_task_id=1, **told)
    for asked, task, run in ((7, None, 1), (8, None, 4), (97, None, 1), (97, 1, 1), (98, 1, 4)):
        found = queries.job(history, asked, task)
        assert found is not None
        assert [one["id"] for one in found["runs"]] == [run]


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
    """Both must be its own; a node that does not know whose job it was tells nothing.

    Nor does an imported run: it may be of another cluster's job.
    """
    add_run(history.conn, 1, job_id=7, restart=2, node="n1", uid=1)
    add_run(history.conn, 2, job_id=7, restart=2, node="n2", source="reconcile")
    add_run(history.conn, 3, job_id=7, restart=2, node="n3", source="node")
    add_run(history.conn, 4, job_id=7, restart=2, node="n4", uid=1, source="sacct")
    assert queries.recorded_nodes(history, 7, 2) == {"n1", "n2"}
    assert queries.recorded_nodes(history, 7, 1) == set()
    assert queries.recorded_nodes(history, 2, 7) == set()


def test_a_number_that_slurm_gave_again_is_not_recorded(history: History) -> None:
    """What had ended before the start in question says nothing of it."""
    for number, end_s in ((1, 20.0), (2, 29.0), (3, 60.0)):
        told = {"start_s": 10.0, "end_s": end_s, "node": f"n{number}", "uid": 1}
        add_run(history.conn, number, job_id=7, restart=0, source="epilog", **told)
    for asking in (queries.recorded_nodes, queries.epilogs_of):
        assert asking(history, 7, 0) == {"n1", "n2", "n3"}
        assert asking(history, 7, 0, 30.0) == {"n2", "n3"}


def test_rows_for_the_server_and_for_training(history: History) -> None:
    """From the id after one's last; ends in [after, before), the newest first."""
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
    assert [row["workers"] for row in found] == [4, 3, 2]
    names = ("end_s", "elapsed_s", "state", "user", "partition")
    assert [found[-1][name] for name in names] == [10.0, 60.0, "COMPLETED", "ada", "p"]
    assert len(list(columns.training_rows(history))) == 4
    assert server == ("id", *KEY_COLUMNS, "user", "account", *LOADER_COLUMNS)
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
        "node": "m",
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
    assert ids(newest_finished(history, 3)) == [4, 3, 1]
    assert ids(newest_finished(history, 4)) == [2, 4, 3, 1]
    assert ids(newest_finished(history, 0)) == []
    assert ids(finished_since(history, 1)) == [2, 3, 4]


@pytest.mark.parametrize("chunk", [1, 3, 100])
def test_one_users_many_jobs_hide_nobodys_finished_ones(
    history: History, monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    """One user has a third of the newest jobs and what others leave, also who has no name."""
    monkeypatch.setattr(finished_jobs, "_ROWS", chunk)
    few = {1: "ada", 2: "bob", 3: None, 4: "bob", 5: "ada"}
    for number in range(1, 40):
        add_run(history.conn, number, user=few.get(number, "eve"))
    assert ids(newest_finished(history, 6)) == [2, 3, 4, 5, 38, 39]
    assert ids(newest_finished(history, 12)) == [*few, *range(33, 40)]
    assert ids(newest_finished(history, 12, before_s=20.0)) == [*few, *range(14, 21)]
    assert ids(newest_finished(history, 99)) == list(range(1, 40))


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
        "ranks": 1,
        "gpu_model": None,
        "data_key": None,
    }
    keys = {Level.SCRIPT: 7, Level.KIND: 9}
    assert recent_runs(history.conn, "same script", keys) == [wanted]
    assert recent_runs(history.conn, "same kind of program", keys) == []
    assert recent_runs(history.conn, "this cluster", keys) == []
    assert recent_runs(history.conn, "same script", keys, known_by_s=0.5) == []
    history.conn.execute("UPDATE loader_runs SET ranks = 2")
    assert recent_runs(history.conn, "same script", keys)[0]["samples_per_s"] == 9.0
    history.conn.execute("UPDATE loader_runs SET whole_samples_per_s = 8.0")
    assert recent_runs(history.conn, "same script", keys)[0]["samples_per_s"] == 8.0


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
    keys = {Level.SCRIPT: 7, Level.KIND: 7, Level.CLUSTER: 7}
    found = similar_runs(history.conn, history.path, keys)
    assert [run.workers for run in found[Level.SCRIPT]] == list(range(17, 1, -1))
    assert [run.emulated for run in found[Level.SCRIPT]][:2] == [True, False]
    assert found[Level.KIND] == found[Level.CLUSTER] == []
    newest = similar_runs(history.conn, history.path, {Level.SCRIPT: 7}, 1)
    assert [run.workers for run in newest[Level.SCRIPT]] == [17]


def test_similar_runs_of_others_are_of_three_users_at_least(history: History) -> None:
    """The newest of each, as many of one as of another; a user's own, and an account's, are his."""
    figures = dict.fromkeys(
        ("samples_per_s", "batch_size", "cores", "accel_samples_per_s", "fetch_wall_s"), 1.0
    )
    for number, user in enumerate("mmmabcmmm", start=1):
        add_run(history.conn, number, user=user, account="lab" if user in "ab" else "x")
        loader = {**figures, "fetch_cpu_s": 1.0, "workers": number, "emulated": 0}
        insert(history.conn, "loader_runs", run=number, key_kind=7, **loader)
    keys = {Level.KIND: 7, Level.OWN_KIND: 1, Level.ACCOUNT_KIND: 2}
    found = similar_runs(history.conn, history.path, keys, user="a", account="lab")
    workers = {level: [run.workers for run in runs] for level, runs in found.items()}
    assert workers == {
        Level.KIND: [9, 6, 5, 4],
        Level.OWN_KIND: [4],
        Level.ACCOUNT_KIND: [5, 4],
    }
    own = recent_runs(history.conn, "same user and kind of program", keys, owner="a")
    assert [one["num_workers"] for one in own] == [4]


def test_runs_with_workers_are_the_users_own(history: History) -> None:
    """The newest sound ones that had any, newest first; nobody else's."""
    figures = dict.fromkeys(
        ("samples_per_s", "batch_size", "cores", "accel_samples_per_s", "fetch_wall_s"), 1.0
    )
    for number, user in enumerate("abaaaa", start=1):
        add_run(history.conn, number, user=user, end_s=float(number))
        loader = {**figures, "fetch_cpu_s": 1.0, "workers": number % 5, "emulated": 0}
        doubt = 1 if number == 4 else None
        insert(history.conn, "loader_runs", run=number, key_kind=7, doubt=doubt, **loader)
    found = [run.workers for run in runs_with_workers(history.conn, history.path, "a")]
    assert found == [1, 3, 1]  # the sixth, the third, the first
    assert [run.workers for run in runs_with_workers(history.conn, history.path, "a", 1)] == [1]
    assert runs_with_workers(history.conn, history.path, "z") == []
