import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import fields
from pathlib import Path

import pytest

from contrib.bench.common import synthetic_history
from slurm_ext.core.errors import HistoryError
from slurm_ext.core.job_keys import keys_of
from slurm_ext.core.records import OWN_LEVELS, Level, LoaderRun
from slurm_ext.history.ingest.spool_folder import ingest_folder
from slurm_ext.history.store import names, reading, retention
from slurm_ext.history.store.store import open_history
from slurm_ext.history.views import columns, lookup, outcomes
from tests.history.conftest import COUNTERS, Spool

RUNS = 5000


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A history of some thousand runs."""
    path = tmp_path_factory.mktemp("filled") / "history.db"
    synthetic_history.fill(path, RUNS)
    return path


@pytest.fixture
def reader(filled: Path) -> Iterator[sqlite3.Connection]:
    """A plain connection to it."""
    with closing(sqlite3.connect(filled)) as conn:
        yield conn


def plan(conn: sqlite3.Connection, sql: str, values: tuple[object, ...]) -> list[str]:
    """SQLite's own words for how it would answer."""
    return [row[3] for row in conn.execute(f"EXPLAIN QUERY PLAN {sql}", values)]


def test_the_tables_have_a_column_for_all_that_a_loader_run_teaches(filled: Path) -> None:
    """Whoever adds a field to LoaderRun learns here that it needs a migration."""
    with open_history(filled, read_only=True) as history:
        found = history.db.table("loader_runs").columns_dict
    taught = {f.name for f in fields(LoaderRun)}
    assert set(found) == {"id", "run", "crowded", *taught, *names.KEY_COLUMNS}


@pytest.mark.parametrize("level", names.STORED_LEVELS)
def test_the_newest_runs_of_a_key_are_one_index_range(
    reader: sqlite3.Connection, level: Level
) -> None:
    """No table scan and no sort: the cost does not grow with the history."""
    key = names.KEY_OF_LEVEL[level]
    steps = plan(reader, lookup.newest(key), (1, 16))
    assert f"SEARCH loader_runs USING INDEX loader_{key} ({key}=?)" in steps
    assert "SEARCH r USING INTEGER PRIMARY KEY (rowid=?)" in steps
    assert not any("SORT" in step or "TEMP" in step for step in steps)


def test_outcomes_of_a_user_are_a_range_too(reader: sqlite3.Connection) -> None:
    """However many others have, and however many of his jobs still wait."""
    (walk,) = plan(reader, outcomes._WALKED, ("ada",))
    assert walk.endswith("USING INDEX decisions_of_user (user=?)")
    steps = plan(reader, outcomes.OUTCOMES_OF_USER, ("ada", 1, 9))
    assert steps[0] == "SEARCH d USING INDEX decisions_of_user (user=? AND rowid>? AND rowid<?)"
    assert "SEARCH d USING INDEX decisions_believed (state=? AND rowid=?)" in steps
    assert not any("SORT" in step or "TEMP" in step for step in steps)
    assert not any(step.startswith("SCAN") for step in steps)


def test_what_arrived_since_is_a_range_too(reader: sqlite3.Connection) -> None:
    """The server's poll reads what is new and nothing else."""
    (step,) = plan(reader, "SELECT * FROM loader_runs WHERE id > ? ORDER BY id", (5,))
    assert step == "SEARCH loader_runs USING INTEGER PRIMARY KEY (rowid>?)"


def test_every_level_answers_its_own_newest_runs(filled: Path, reader: sqlite3.Connection) -> None:
    """The answer is what a full scan would give."""
    job = synthetic_history.submission(7)
    keys = keys_of(job)
    found = lookup.similar_runs(reader, filled, keys, limit=5, user=job.user_name)
    assert list(found) == list(keys)
    of_user = "SELECT id FROM runs WHERE user = :user"
    for level in (*OWN_LEVELS, Level.KIND, Level.CLUSTER):
        own = level is Level.OWN_KIND
        column = names.KEY_OF_LEVEL[Level.KIND if own else level]
        wanted = reader.execute(
            f"SELECT samples_per_s FROM loader_runs WHERE +{column} = :key"
            f"{f' AND run IN ({of_user})' if own else ''} ORDER BY id DESC",
            {"key": keys[Level.KIND if own else level], "user": job.user_name},
        ).fetchmany(lookup.MOST_WALKED)
        rates = [(run.samples_per_s,) for run in found[level]]
        if level in OWN_LEVELS:
            assert rates == wanted[:5]
        assert set(rates) <= set(wanted)
        assert wanted


def test_an_unknown_key_has_no_runs(filled: Path, reader: sqlite3.Connection) -> None:
    """A script never seen is not an error."""
    assert lookup.similar_runs(reader, filled, {Level.SCRIPT: 1}) == {Level.SCRIPT: []}


def test_no_history_is_a_clear_error(tmp_path: Path) -> None:
    """And looking creates none."""
    with pytest.raises(HistoryError, match="does not exist yet"):
        reading.connect(tmp_path / "history.db")
    assert list(tmp_path.iterdir()) == []


def test_looking_up_brings_nothing_heavy_along() -> None:
    """`predict` waits for this import: the standard library and our own words only."""
    heavy = "sqlite_utils", "numpy", "click", "rich", "typing_extensions", "asyncio", "argparse"
    shown = f"print(sorted({{*{heavy}}} & {{*sys.modules}}))"
    code = f"import sys, slurm_ext.history.views.lookup; {shown}"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "[]"


def test_the_server_reads_all_and_then_only_what_is_new(filled: Path) -> None:
    """Rows stream in the order of their ids, with the columns that are announced."""
    with open_history(filled, read_only=True) as history:
        assert columns.loader_count(history) == RUNS
        all_rows = list(columns.loader_rows(history))
        assert len(all_rows) == RUNS
        assert {len(row) for row in all_rows} == {len(columns.SERVER_COLUMNS)}
        last = all_rows[-3][0]
        assert list(columns.loader_rows(history, last)) == all_rows[-2:]


def test_training_reads_a_window_of_time_in_order(filled: Path) -> None:
    """The later part can be kept for scoring, untouched by the earlier."""
    with open_history(filled, read_only=True) as history:
        everything = list(columns.training_rows(history))
        ends = [row[0] for row in everything]
        assert ends == sorted(ends, reverse=True)
        middle = ends[RUNS // 2]
        early = list(columns.training_rows(history, before_s=middle))
        late = list(columns.training_rows(history, after_s=middle))
        assert late + early == everything
        assert {len(row) for row in everything} == {len(columns.TRAINING_COLUMNS)}


def test_ids_never_come_back(database: Path, spool: Spool) -> None:
    """A reader that remembers the last id misses nothing after runs were forgotten."""
    with open_history(database) as history:
        ingest_folder(history, spool(record_id="a").parent, now_s=0.0)
        ((first, *_),) = columns.loader_rows(history)
        assert retention.forget(history, 1e12) == 1
        ingest_folder(history, spool(record_id="b").parent, now_s=0.0)
        assert [row[0] for row in columns.loader_rows(history, first)] == [first + 1]


def test_forgetting_takes_all_of_an_old_run_and_nothing_of_a_young_one(
    database: Path, spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counters, time lines and evidence go with their run, over several transactions."""
    monkeypatch.setattr(retention, "_CHUNK", 100)
    with open_history(database) as history:
        for number in range(250):
            spool(f"{number}.json", record_id=f"r{number}", times={"end_s": 1000.0 + number})
        ingest_folder(history, database.parent / "spool", now_s=0.0)
        assert retention.forget(history, 1000.0 + 240) == 240
        for table, each in (
            ("runs", 1),
            ("loader_runs", 1),
            ("counters", COUNTERS),
            ("timeline", 1),
        ):
            (left,) = history.conn.execute(f"SELECT count(*) FROM {table}").fetchone()
            assert left == each * 10
        assert history.conn.execute("SELECT min(end_s) FROM runs").fetchone() == (1240.0,)


def test_a_forgotten_record_delivered_again_is_not_new(database: Path, spool: Spool) -> None:
    """A node that was cut off for years repeats itself: nothing is counted twice."""
    with open_history(database) as history:
        ingest_folder(history, spool().parent, now_s=0.0)
        assert retention.forget(history, 1e12) == 1
        report = ingest_folder(history, spool().parent, now_s=0.0)
        assert (report.taken, report.duplicates) == (0, 1)
        assert history.conn.execute("SELECT count(*) FROM runs").fetchone() == (0,)


def test_a_run_without_an_end_is_forgotten_by_its_arrival(database: Path, spool: Spool) -> None:
    """A record that never knew when its job ended does not stay for ever."""
    file = spool(times={"end_s": None})
    with open_history(database) as history:
        ingest_folder(history, file.parent, now_s=500.0)
        assert retention.forget(history, 400.0) == 0
        assert retention.forget(history, 600.0) == 1
