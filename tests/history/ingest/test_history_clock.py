"""A clock that is set back between two steps: nothing is lost, doubled or forgotten early."""

from pathlib import Path

from slurm_ext.history.ingest.decisions import drop_unclaimed, unclaimed
from slurm_ext.history.ingest.journal import record_journal
from slurm_ext.history.ingest.proposals import line_of
from slurm_ext.history.ingest.spool_folder import ingest_folder
from slurm_ext.history.store.retention import forget
from slurm_ext.history.store.store import open_history
from tests.history.conftest import Spool
from tests.history.ingest.test_history_decisions import TOKEN, proposal

LATER_S, EARLIER_S = 2_000_000_000.0, 1_000_000.0


def test_records_come_in_whatever_the_clock_says(database: Path, spool: Spool) -> None:
    """A run that seems to end before it starts, taken in before its neighbour: each counts once."""
    with open_history(database) as history:
        spool("a.json", record_id="a")
        assert ingest_folder(history, database.parent / "spool", now_s=LATER_S).taken == 1
        backwards = {"start_s": LATER_S, "end_s": EARLIER_S, "elapsed_s": 41.5}
        spool("b.json", record_id="b", times=backwards)
        spool("again.json", record_id="a")
        report = ingest_folder(history, database.parent / "spool", now_s=EARLIER_S)
        assert (report.taken, report.duplicates) == (1, 1)
        elapsed = history.conn.execute("SELECT record_id, elapsed_s FROM runs ORDER BY id")
        assert elapsed.fetchall() == [("a", 41.5), ("b", 41.5)]


def test_nothing_is_forgotten_by_a_clock_that_went_back(database: Path, spool: Spool) -> None:
    """Retention counts from the present, however early that is."""
    with open_history(database) as history:
        spool("a.json", record_id="a")
        ingest_folder(history, database.parent / "spool", now_s=LATER_S)
        assert forget(history, EARLIER_S - 730 * 86400.0) == 0
        assert history.conn.execute("SELECT count(*) FROM runs").fetchone() == (1,)


def test_a_proposal_of_the_future_waits(database: Path, tmp_path: Path) -> None:
    """Proposals made before the clock went back are neither dropped nor entered twice."""
    journal = tmp_path / "journal-1"
    journal.write_text(line_of(proposal(decided_s=LATER_S)))
    with open_history(database) as history:
        assert [record_journal(history, journal, now_s=EARLIER_S).new for _ in range(2)] == [1, 0]
        assert drop_unclaimed(history, before_s=EARLIER_S) == 0
        assert unclaimed(history, before_s=LATER_S + 1) == [TOKEN]
