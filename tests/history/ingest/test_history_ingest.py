import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_ext.core.errors import HistoryError
from slurm_ext.history.ingest import rows
from slurm_ext.history.ingest.spool_folder import IngestReport, ingest_folder
from slurm_ext.history.store.store import open_history
from slurm_ext.history.views import queries
from slurm_ext.node.record.reader import UnusableRecordError, validate
from tests.history.conftest import COUNTERS, GOLDEN, Spool

BAD = sorted((Path(__file__).parents[2] / "bad_input" / "spool").iterdir())


def take(database: Path) -> IngestReport:
    """One pass over the spool beside the database."""
    with open_history(database) as history:
        return ingest_folder(history, database.parent / "spool", now_s=2e9)


def select(database: Path, sql: str) -> list[tuple[Any, ...]]:
    """Rows of a query."""
    with open_history(database, read_only=True) as history:
        return history.conn.execute(sql).fetchall()


def test_the_golden_record_arrives_whole(database: Path, spool: Spool) -> None:
    """Identity, counters, co-runners, time line, the probe's figures and evidence are all kept."""
    file = spool()
    assert take(database) == IngestReport(taken=1)
    assert not file.exists()
    golden = json.loads(GOLDEN.read_text())
    with open_history(database, read_only=True) as history:
        known = queries.job(history, 1042)
    assert known is not None
    (run,) = known["runs"]
    assert {name: run[name] for name in golden["identity"]} == golden["identity"]
    assert {name: run[name] for name in golden["times"]} == golden["times"]
    assert {c["name"]: c for c in run["counters"]} == {c["name"]: c for c in golden["counters"]}
    assert run["corunners"] == golden["corunners"]
    assert run["timeline"] == golden["timeline"]
    assert run["probe"] == golden["probe"]
    assert run["loader_samples_per_s"] == pytest.approx(2048 / 15)


@pytest.mark.parametrize("bad", BAD, ids=lambda path: path.stem)
def test_a_bad_record_is_set_aside_whole_with_its_reason(
    database: Path, spool: Spool, bad: Path
) -> None:
    """Whatever is wrong with a record, its bytes are kept, the reason noted, the rest goes on."""
    (database.parent / "spool" / bad.name).write_bytes(bad.read_bytes())
    spool("good.json")
    assert take(database) == IngestReport(taken=1, quarantined=1)
    ((name, reason),) = select(database, "SELECT name, reason FROM set_aside")
    assert (database.parent / "aside" / name).read_bytes() == bad.read_bytes()
    assert reason.strip()
    assert list((database.parent / "spool").iterdir()) == []


def test_links_pipes_folders_and_giants_are_moved_unread(database: Path, tmp_path: Path) -> None:
    """What is no plain file of bearable size is never opened to its end, and never followed."""
    folder = tmp_path / "spool"
    secret = tmp_path / "secret"
    secret.write_text(GOLDEN.read_text())
    (folder / "link.json").symlink_to(secret)
    os.mkfifo(folder / "pipe.json")
    (folder / "folder.json").mkdir()
    with (folder / "giant.json").open("wb") as giant:
        giant.truncate(1 << 40)
    assert take(database) == IngestReport(quarantined=4)
    aside = {
        path.name.split(".")[0]: path.lstat().st_mode for path in (tmp_path / "aside").iterdir()
    }
    assert stat.S_ISLNK(aside["link"])
    assert stat.S_ISFIFO(aside["pipe"])
    assert stat.S_ISDIR(aside["folder"])
    assert stat.S_ISREG(aside["giant"])
    assert secret.exists()
    assert select(database, "SELECT * FROM runs") == []


def test_a_record_still_being_written_is_left_alone(database: Path, spool: Spool) -> None:
    """Writers use a name with a dot in front until the record is whole."""
    half = spool(".a.json.123.tmp")
    hidden = spool(".a.json")
    assert take(database) == IngestReport()
    assert half.exists()
    assert hidden.exists()


def test_a_record_delivered_again_counts_once(database: Path, spool: Spool) -> None:
    """Transport may repeat itself; under any file name."""
    for name in ("a.json", "b.json", "a.json"):
        spool(name)
        take(database)
    for table in ("runs", "loader_runs", "timeline", "probes", "step_splits"):
        assert select(database, f"SELECT count(*) FROM {table}") == [(1,)]
    assert select(database, "SELECT count(*) FROM counters") == [(COUNTERS,)]


@pytest.mark.parametrize(
    ("first", "second", "kept"),
    [
        ("reconcile", "epilog", "epilog"),
        ("reconcile", "node", "node"),
        ("node", "epilog", "epilog"),
        ("epilog", "reconcile", "epilog"),
        ("epilog", "node", "epilog"),
        ("node", "reconcile", "node"),
        ("unheard-of", "epilog", "epilog"),
        ("epilog", "unheard-of", "epilog"),
    ],
)
def test_the_witness_nearest_to_the_end_is_kept(
    database: Path, spool: Spool, first: str, second: str, kept: str
) -> None:
    """An epilog's record replaces what was guessed without it, whichever came first."""
    spool(outcome={"source": first, "exit_code": 1}, counters=[], corunners=[])
    take(database)
    spool(outcome={"source": second, "exit_code": 2})
    report = take(database)
    assert report.replaced + report.duplicates == 1
    assert select(database, "SELECT source, exit_code FROM runs") == [(kept, 1 + (kept == second))]
    assert select(database, "SELECT count(*) FROM counters") == [
        (COUNTERS if kept == second else 0,)
    ]
    assert select(database, "SELECT count(*) FROM loader_runs") == [(1,)]


def test_a_better_record_under_the_same_name_is_not_deleted_unread(
    database: Path, spool: Spool
) -> None:
    """The file that is deleted is the one that was read, not one that came meanwhile."""
    spool(outcome={"source": "reconcile"})

    def deliver(step: str) -> None:
        if step == "committed":
            better = spool(".new", outcome={"source": "epilog"})
            better.rename(better.with_name("a.json"))

    with open_history(database) as history:
        folder = database.parent / "spool"
        assert ingest_folder(history, folder, now_s=2e9, step=deliver).taken == 1
        assert ingest_folder(history, folder, now_s=2e9).replaced == 1
    assert select(database, "SELECT source FROM runs") == [("epilog",)]
    assert list(folder.iterdir()) == []


def test_a_malformed_summary_costs_the_evidence_and_not_the_run(
    database: Path, spool: Spool
) -> None:
    """What the user's own process wrote cannot make a run disappear."""
    spool(probe={"summaries": [{"loaders": [{"phases": "many"}]}, {"loaders": 7}, {}]})
    assert take(database).taken == 1
    assert select(database, "SELECT count(*) FROM runs") == [(1,)]
    assert select(database, "SELECT count(*) FROM loader_runs") == [(0,)]


def test_hostile_texts_are_data(database: Path, spool: Spool) -> None:
    """Quotes, newlines, terminal escapes, SQL, HTML and NUL come back as they were."""
    hostile = '\'); DROP TABLE runs;--\n\x1b]0;owned\x07<script>\0 "ü" $(reboot)'
    spool(identity={"job_name": hostile, "work_dir": hostile})
    assert take(database).taken == 1
    assert select(database, "SELECT job_name, work_dir FROM runs") == [(hostile, hostile)]


def test_an_absent_spool_is_empty_and_a_file_in_its_place_an_error(database: Path) -> None:
    """Before the first record there is no folder; something else there is told."""
    (database.parent / "spool").rmdir()
    assert take(database) == IngestReport()
    (database.parent / "spool").write_text("")
    with pytest.raises(HistoryError, match="cannot be listed: Not a directory"):
        take(database)


_LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
_ANY = st.recursive(_LEAVES, lambda more: st.lists(more) | st.dictionaries(st.text(), more))
_SECTIONS = (
    "identity",
    "allocation",
    "times",
    "outcome",
    "host",
    "probe",
    "mps",
    "counters",
    "corunners",
)


@settings(deadline=None)  # a busy machine is no failure
@given(st.dictionaries(st.sampled_from((*_SECTIONS, "record_id", "decision")), _ANY))
def test_rows_are_made_or_refused(sections: dict[str, Any]) -> None:
    """The door refuses a record with its own error; what passes it fits SQLite."""
    record = {**json.loads(GOLDEN.read_text()), **sections}
    try:
        made = rows.rows_of(validate(json.dumps(record).encode(), "x"))
    except UnusableRecordError:
        return
    loader = () if made.loader is None else rows.loader_values(made.loader)
    for value in (*made.run, *loader, *(v for row in made.corunners for v in row)):
        assert value is None or isinstance(value, (str, float)) or abs(value) <= 1 << 63


def test_what_was_shared_is_kept_and_an_older_record_has_none_of_it(
    database: Path, spool: Spool
) -> None:
    """GPUs by UUID, counts of CPUs; a record of before, and one where nobody looked, say null."""
    seen = {"cpus": 0, "sockets": 1, "gpus": ["GPU-a", "GPU-b"]}
    old, blind = {"job_id": 2, "overlap_s": 3.0}, {"job_id": 3, "overlap_s": 1.0, "shared": None}
    spool(corunners=[{"job_id": 1, "overlap_s": 12.5, "shared": seen}, old, blind])
    take(database)
    with open_history(database, read_only=True) as history:
        (run,) = (queries.job(history, 1042) or {})["runs"]
    assert [one["shared"] for one in run["corunners"]] == [seen, None, None]
    assert select(database, "SELECT shared_gpus FROM corunners WHERE job_id = 1") == [
        ("GPU-a,GPU-b",)
    ]
