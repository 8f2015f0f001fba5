"""The journals of several starts, on their way into the ledger."""

import time
from pathlib import Path

import pytest

from slurm_ext.advisor.history_writer.writer import HistoryWriter
from slurm_ext.advisor.pipeline.journal import Journal, journals
from slurm_ext.core.settings.document import Settings
from slurm_ext.history.ingest.proposals import line_of
from slurm_ext.history.store.store import History, open_history
from tests.history.ingest.test_history_decisions import proposal

TWO_HOURS_NS = 7200 * 10**9


def token(number: int) -> str:
    """A decision's."""
    return f"d1-{number:016x}"


def taken(history: History) -> set[str]:
    """Tokens in the ledger."""
    return {found for (found,) in history.conn.execute("SELECT token FROM decisions")}


@pytest.fixture
def writer(tmp_path: Path) -> HistoryWriter:
    """It writes the history of this state folder."""
    return HistoryWriter(Settings(values={"paths.state_dir": str(tmp_path)}), None)


def test_a_clock_set_back_loses_no_decision(
    tmp_path: Path, writer: HistoryWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The journal in use is the last one by its name, and stays until there is another."""
    folder, ahead_ns = tmp_path / "journal", time.time_ns() + TWO_HOURS_NS
    with open_history(tmp_path / "history.db") as history:
        with monkeypatch.context() as wrong:
            wrong.setattr(time, "time_ns", lambda: ahead_ns)
            first = Journal(folder)
        first.append(line_of(proposal(token(1))))
        writer.take_journals(history, 5.0)
        first.close()
        second = Journal(folder)
        for number in (2, 3, 4):
            writer.take_journals(history, 5.0)
            second.append(line_of(proposal(token(number))))
        writer.take_journals(history, 5.0)
        second.close()
        assert taken(history) == {token(number) for number in (1, 2, 3, 4)}
    assert [path.name for path in journals(folder)] == [f"{ahead_ns + 1:020d}.jsonl"]


def test_a_foreign_file_among_journals_names_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy that somebody left there stops no start; the name is then the time."""
    (tmp_path / "0-copy.jsonl").touch()
    monkeypatch.setattr(time, "time_ns", lambda: 7)
    Journal(tmp_path).close()
    assert {path.name for path in journals(tmp_path)} == {f"{7:020d}.jsonl", "0-copy.jsonl"}


def test_half_a_line_that_nobody_completes_keeps_no_journal(
    tmp_path: Path, writer: HistoryWriter
) -> None:
    """A full disk left it: it is noted once and the journal goes; the last journal's waits."""
    folder, line = tmp_path / "journal", line_of(proposal(token(1)))
    folder.mkdir()
    (folder / "1.jsonl").write_text(line + line[:40])
    (folder / "2.jsonl").write_text(line[:40])
    with open_history(tmp_path / "history.db") as history:
        writer.take_journals(history, 5.0)
        writer.take_journals(history, 6.0)
        assert taken(history) == {token(1)}
        assert history.conn.execute("SELECT count(*) FROM set_aside").fetchone() == (1,)
        assert [path.name for path in journals(folder)] == ["2.jsonl"]
        (folder / "2.jsonl").write_text(line_of(proposal(token(2))))
        writer.take_journals(history, 7.0)
        assert taken(history) == {token(1), token(2)}
