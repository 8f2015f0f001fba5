"""Lines of proposals: each refusal with its reason, and counts."""

import json
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest

from slurm_ext.core.actions import encode_action
from slurm_ext.core.errors import RecordError
from slurm_ext.core.records import Edits, Elsewhere, Interval, Level
from slurm_ext.history.ingest import journal
from slurm_ext.history.ingest.actions import record_actions
from slurm_ext.history.ingest.decisions import record_proposals
from slurm_ext.history.ingest.insert import IngestResult, Inserter
from slurm_ext.history.ingest.proposals import line_of, proposal_of
from slurm_ext.history.ingest.rows import RecordRows
from slurm_ext.history.ingest.spool_folder import ingest_folder
from slurm_ext.history.store.store import History
from tests.history.conftest import Spool
from tests.history.ingest.ingest_examples import DECISION, action, predicted, proposal


def test_why_a_line_is_no_proposal(history: History) -> None:
    """In the note, for people; each bad line counts, and again nothing changes."""
    path = history.path.with_name("journal-1")
    bad = line_of(proposal()).replace('"v":1', '"v":2').encode()
    wrong = line_of(proposal()).replace('"job_name":""', '"job_name":5').encode()
    path.write_bytes(bad + b"x\n" + wrong + line_of(proposal()).encode() + b"{half")
    for wanted in ((1, 3), (0, 0)):
        report = journal.record_journal(history, path, now_s=9.0)
        assert (report.new, report.bad_lines) == wanted
    reasons = {reason for (reason,) in history.conn.execute("SELECT reason FROM set_aside")}
    assert "journal: is not a proposal: ValueError('another version')" in reasons
    assert (
        """journal: is not a proposal: ValueError("job_name is 5, expected <class 'str'>")"""
        in reasons
    )
    assert len(reasons) == 3
    for line in (b"{}", b"[]"):
        with pytest.raises(RecordError, match="journal: is not a proposal: "):
            proposal_of(line)


def test_a_line_has_everything_of_its_proposal() -> None:
    """In one line of JSON, version 1, with the names of levels; defaults are filled in."""
    full = proposal(keys={Level.KIND: 5}, edits=Edits(cpus_per_task=3), sharing={"a": 1})
    line = line_of(full)
    body = json.loads(line)
    assert (body["v"], body["keys"], body["edits"]["cpus_per_task"]) == (1, {"KIND": 5}, 3)
    assert line == json.dumps(body, separators=(",", ":")) + "\n"
    assert proposal_of(line.encode()) == full
    later = ("sharing", "elastic", "ranks", "model", "factor", "message", "holdout", "user", "uid")
    for name in later:
        del body[name]
    assert proposal_of(json.dumps(body).encode()) == replace(full, sharing=None)
    assert (full.user, full.uid, full.job_name, full.factor, full.holdout) == (
        "",
        -1,
        "",
        1.0,
        False,
    )


def test_both_worlds_of_a_proposal_are_in_its_line_and_in_the_ledger(history: History) -> None:
    """A line of before told one rate of cores of its own, which nobody can be judged by."""
    other = Elsewhere(20.0, Interval(15.0, 30.0, 0.8), crowded=True)
    told = replace(DECISION, predicted_after=replace(predicted(100.0), elsewhere=other))
    two = proposal(decision=told, factor_beside=1.5)
    assert proposal_of(line_of(two).encode()) == two
    body = json.loads(line_of(proposal()))
    body["decision"]["predicted_after"]["alone_samples_per_s"] = 70.0
    assert proposal_of(json.dumps(body).encode()).decision == DECISION
    record_proposals(history, [two, proposal("d1-0000000000000001")], "j", 1)
    names = "crowded, factor_beside, before_else_low, after_else_samples_per_s, after_else_high"
    rows = history.conn.execute(f"SELECT {names} FROM decisions ORDER BY id").fetchall()
    assert rows == [(0, 1.5, None, 20.0, 30.0), (None, 1.0, None, None, None)]


@pytest.mark.parametrize("chunk", [200, 1 << 20])
def test_counts_are_added_over_chunks(
    history: History, ledger: Path, monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    """Of a journal as of a file of actions, whatever a chunk holds."""
    monkeypatch.setattr(journal, "_CHUNK_BYTES", chunk * 10)
    path = history.path.with_name("journal-1")
    for number in range(4):
        with path.open("a") as stream:
            stream.write(line_of(proposal(f"d1-{number}")) + f"x{number}\n")
    found = journal.record_journal(history, path, now_s=0.0)
    assert (found.new, found.bad_lines) == (4, 4)
    monkeypatch.setattr(journal, "_CHUNK_BYTES", chunk)
    for name in "bcd":
        with ledger.open("a") as stream:
            stream.write(f"x{name}\n" + encode_action(action(name)))
    found = record_actions(history, ledger, now_s=0.0)
    assert (found.new, found.bad_lines) == (4, 3)


@pytest.mark.parametrize("many", [1, 2, 3])
def test_a_record_that_sqlite_refuses_goes_alone(
    history: History, spool: Spool, monkeypatch: pytest.MonkeyPatch, many: int
) -> None:
    """The rest of its batch is taken, of two as of three; its note has its fingerprint."""
    put = Inserter.put

    def refusing(self: Inserter, rows: RecordRows, now_s: float) -> IngestResult:
        if rows.run.record_id == "r0":
            raise OverflowError("too large")
        return put(self, rows, now_s)

    monkeypatch.setattr(Inserter, "put", refusing)
    files = [spool(f"{number}.json", record_id=f"r{number}") for number in range(many)]
    digest = sha256(files[0].read_bytes()).hexdigest()
    report = ingest_folder(history, files[0].parent, now_s=5.0)
    assert (report.taken, report.quarantined, report.left) == (many - 1, 1, 0)
    notes = history.conn.execute("SELECT source, reason, sha256, aside_s FROM set_aside").fetchall()
    assert notes == [(str(files[0]), "SQLite refuses it: too large", digest, 5.0)]


def test_fields_of_a_later_version_do_no_harm(history: History) -> None:
    """After going back, the newer server's journal is read, and not thrown away line by line."""
    full = proposal(decision=replace(DECISION, predicted_before=predicted(80.0)))
    body = json.loads(line_of(full))
    decision = body["decision"]
    told = decision["predicted_before"]
    for part in (body, body["edits"], decision["after"], told, told["interval"], told["shape"]):
        part["later"] = None
    path = history.path.with_name("journal-1")
    path.write_bytes(json.dumps(body).encode() + b"\n")
    report = journal.record_journal(history, path, now_s=9.0)
    assert (report.new, report.bad_lines) == (1, 0)
    assert proposal_of(json.dumps(body).encode()) == full
