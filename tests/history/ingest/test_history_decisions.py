from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_ext.core.errors import RecordError
from slurm_ext.core.records import Decision, Edits, Interval, Level, Mode, Prediction, Shape
from slurm_ext.history.ingest import decisions, journal
from slurm_ext.history.ingest.proposal_rows import row_of
from slurm_ext.history.ingest.proposals import Proposal, line_of, proposal_of
from slurm_ext.history.ingest.spool_folder import ingest_folder
from slurm_ext.history.store.names import KEY_COLUMNS, STORED_LEVELS
from slurm_ext.history.store.store import History, open_history
from slurm_ext.history.views.outcomes import fair_outcomes
from tests.history.conftest import Spool

TOKEN = "d1-0123456789abcdef"
KEYS = {level: 100 + number for number, level in enumerate(STORED_LEVELS)}


def believed(cpus: int, rate: float) -> Prediction:
    """A prediction for so many CPUs and as many workers."""
    return Prediction(
        shape=Shape(cpus_per_task=cpus, num_workers=cpus),
        samples_per_s=rate,
        interval=Interval(rate * 0.8, rate * 1.2),
        bottleneck="data",
        level=Level.SCRIPT,
        runs=3,
    )


def proposal(token: str = TOKEN, **changes: Any) -> Proposal:
    """A proposal to go from one CPU to two."""
    one, two = believed(1, 50.0), believed(2, 100.0)
    decision = Decision(
        action="change",
        reason="data-bound",
        before=one.shape,
        after=two.shape,
        predicted_before=one,
        predicted_after=two,
    )
    values: dict[str, Any] = {
        "decided_s": 1000.0,
        "mode": Mode.ACT,
        "user": "ada",
        "uid": 1000,
        "job_name": "train.sh",
        "decision": decision,
        "edits": Edits(cpus_per_task=2, env={"A": "b"}),
        "message": "dlqueue: 1 -> 2",
        "factor": 1.25,
        "keys": KEYS,
    }
    return Proposal(token=token, **{**values, **changes})


def keys_of_runs(history: History) -> list[tuple[int | None, ...]]:
    """The key columns of every loader run."""
    names = ", ".join(KEY_COLUMNS)
    return history.conn.execute(f"SELECT {names} FROM loader_runs ORDER BY id").fetchall()


@settings(deadline=None)  # a busy machine is no failure
@given(
    text=st.text(),
    key=st.integers(-(1 << 63), (1 << 63) - 1),
    mode=st.sampled_from(Mode),
    holdout=st.booleans(),
)
def test_a_proposal_survives_its_line(text: str, key: int, mode: Mode, holdout: bool) -> None:
    """What the server writes the keeper reads, on one line, for any text of a user."""
    wanted = proposal(
        job_name=text, message=text, keys={Level.KIND: key}, mode=mode, holdout=holdout
    )
    line = line_of(wanted)
    assert line.count("\n") == 1
    assert proposal_of(line.encode()) == wanted
    row_of(wanted)


def test_a_proposal_without_predictions_survives_too() -> None:
    """Evidence too thin: nothing is believed, and that is what is kept."""
    shape = Shape(cpus_per_task=1, num_workers=0)
    silent = Decision(action="leave", reason="no evidence", before=shape, after=shape)
    assert proposal_of(line_of(proposal(decision=silent)).encode()).decision == silent


def test_everything_that_explain_needs_is_kept(database: Path) -> None:
    """The ledger's row holds belief, choice, reason, edits, message and who asked."""
    with open_history(database) as history:
        decisions.record_proposals(history, [proposal()], "j", 10)
        row = decisions.decision(history, token=TOKEN)
    assert row is not None
    assert (row["state"], row["mode"], row["action"]) == ("proposed", "act", "change")
    assert (row["before_cpus"], row["after_cpus"], row["after_workers"]) == (1, 2, 2)
    assert (row["after_low"], row["after_samples_per_s"], row["after_high"]) == (80, 100, 120)
    assert (row["before_low"], row["before_samples_per_s"], row["before_high"]) == (40, 50, 60)
    assert (row["level"], row["runs"], row["user"]) == (Level.SCRIPT.value, 3, "ada")
    assert '"cpus_per_task": 2' in row["edits"]


def test_a_run_claims_its_proposal_and_gets_its_keys(database: Path, spool: Spool) -> None:
    """The token in the record ties job and submission together."""
    file = spool()
    with open_history(database) as history:
        decisions.record_proposals(history, [proposal()], "j", 10)
        ingest_folder(history, file.parent, now_s=2000.0)
        row = decisions.decision(history, job_id=1042)
        assert row is not None
        assert (row["state"], row["token"], row["claimed_s"]) == ("claimed", TOKEN, 2000.0)
        assert keys_of_runs(history) == [tuple(KEYS.values())]


def test_a_proposal_that_comes_after_its_run_fills_in_the_keys(
    database: Path, spool: Spool
) -> None:
    """Without it the run is known by user and cluster only; with it by all five."""
    file = spool()
    with open_history(database) as history:
        ingest_folder(history, file.parent, now_s=2000.0)
        ((script_args, script, user_name, kind, cluster),) = keys_of_runs(history)
        assert (script_args, script, kind) == (None, None, None)
        assert user_name is not None
        assert cluster is not None
        assert decisions.record_proposals(history, [proposal()], "j", 10) == 1
        assert keys_of_runs(history) == [tuple(KEYS.values())]
        assert decisions.decision(history, job_id=1042) is not None


def test_the_first_job_keeps_the_token(database: Path, spool: Spool) -> None:
    """A job that submits another passes its environment on; the child is not the parent."""
    with open_history(database) as history:
        decisions.record_proposals(history, [proposal()], "j", 10)
        assert decisions.claim(history, TOKEN, 1041, uid=1000, now_s=1500.0)
        assert not decisions.claim(history, TOKEN, 1042, uid=1000, now_s=1600.0)
        assert decisions.claim(history, TOKEN, 1041, uid=1000, now_s=1700.0)
        assert not decisions.claim(history, "d1-ffffffffffffffff", 1, uid=1000, now_s=0.0)
        ingest_folder(history, spool().parent, now_s=2000.0)  # job 1042 with 1041's token
        ((script_args, *_),) = keys_of_runs(history)
        assert script_args is None
        assert decisions.decision(history, job_id=1042) is None


def test_an_array_is_one_submission(database: Path, spool: Spool) -> None:
    """Every task of an array has the token; all are runs of its one proposal."""
    with open_history(database) as history:
        decisions.record_proposals(history, [proposal()], "j", 10)
        for task in range(3):
            ids = {"job_id": 1042 + task, "array_job_id": 1042, "array_task_id": task}
            file = spool(f"{task}.json", record_id=f"r{task}", identity=ids)
        ingest_folder(history, file.parent, now_s=2000.0)
        assert keys_of_runs(history) == [tuple(KEYS.values())] * 3
        row = decisions.decision(history, job_id=1044)
        assert row is not None
        assert row["job_id"] == 1042


def test_what_became_no_job_leaves_no_orphan(database: Path) -> None:
    """`sbatch --test-only` proposals go after a while; claimed, young and kept ones stay."""
    tokens = [f"d1-{number:016x}" for number in range(4)]
    with open_history(database) as history:
        rows = [proposal(t, decided_s=1000.0 * (n + 1)) for n, t in enumerate(tokens)]
        decisions.record_proposals(history, rows, "j", 10)
        decisions.claim(history, tokens[0], 7, uid=1000, now_s=0.0)
        assert decisions.unclaimed(history, before_s=3500.0) == tokens[1:3]
        assert decisions.drop_unclaimed(history, before_s=3500.0, keep=[tokens[2]]) == 1
        assert decisions.drop_unclaimed(history, before_s=3500.0, keep=[tokens[2]]) == 0
        left = history.conn.execute("SELECT token FROM decisions ORDER BY id").fetchall()
        assert [token for (token,) in left] == [tokens[0], tokens[2], tokens[3]]


def test_a_journal_is_read_once_and_half_a_line_waits(database: Path, tmp_path: Path) -> None:
    """Line by line as it grows; reading again, after a crash too, adds nothing."""
    log = tmp_path / "journal-1"
    first, second = (line_of(proposal(f"d1-{n:016x}")) for n in (1, 2))
    log.write_text(first + second[:30])
    with open_history(database) as history:
        assert journal.record_journal(history, log, now_s=0.0).new == 1
        assert journal.record_journal(history, log, now_s=0.0).new == 0
        assert journal.offset(history, log.name) == len(first)
        assert not journal.delete_if_recorded(history, log)
    with log.open("a") as stream:
        stream.write(second[30:])
    with open_history(database) as history:
        assert journal.record_journal(history, log, now_s=0.0).new == 1
        assert journal.delete_if_recorded(history, log)
        assert not log.exists()


def test_a_journal_that_somebody_emptied_is_read_from_its_start(
    database: Path, tmp_path: Path
) -> None:
    """By hand or by a rotation of logs: no later decision is passed over, or deleted unread."""
    log = tmp_path / "journal-1"
    lines = [line_of(proposal(f"d1-{n:016x}")) for n in range(6)]
    log.write_text("".join(lines[:3]))
    with open_history(database) as history:
        assert journal.record_journal(history, log, now_s=0.0).new == 3
        log.write_text(lines[2] + lines[3])
        assert journal.record_journal(history, log, now_s=0.0).new == 1
        log.write_text("")
        assert journal.record_journal(history, log, now_s=0.0).new == 0
        log.write_text("".join(lines[3:]))
        assert journal.record_journal(history, log, now_s=0.0).new == 2
        assert journal.delete_if_recorded(history, log)


@pytest.mark.parametrize(
    "bad",
    [
        b"\n",
        b"{}\n",
        b"null\n",
        b"[" * 60000 + b"\n",
        b"\xff\xfe\n",
        b"x" * 100_000 + b"\n",
        line_of(proposal()).replace('"v":1', '"v":2').encode(),
        line_of(proposal()).replace('"cpus_per_task":1', '"cpus_per_task":[1]').encode(),
        line_of(proposal()).replace('"runs":3', '"runs":' + "9" * 30).encode(),
        line_of(proposal()).replace('"mode":"act"', '"mode":"war"').encode(),
        line_of(proposal()).replace('"job_name":"train.sh"', '"job_name":5').encode(),
        line_of(proposal()).replace('"keys":{', '"keys":{"NOWHERE":1,').encode(),
        line_of(proposal()).replace('"KIND":103', '"KIND":1e400').encode(),
        line_of(proposal()).replace('"KIND":103', '"KIND":9223372036854775808').encode(),
        line_of(proposal(factor=1e300)).encode(),
        line_of(proposal(uid=1 << 63)).encode(),
        line_of(proposal(elastic=7)).encode(),
        line_of(proposal(edits=Edits(env={"A": [1]}))).encode(),  # type: ignore[dict-item]
    ],
)
def test_a_bad_line_is_noted_and_passed(database: Path, tmp_path: Path, bad: bytes) -> None:
    """One line that is no proposal stops neither the journal nor the keeper."""
    with pytest.raises(RecordError):
        proposal_of(bad)
    log = tmp_path / "journal-1"
    log.write_bytes(bad + line_of(proposal("d1-0000000000000001")).encode())
    with open_history(database) as history:
        report = journal.record_journal(history, log, now_s=0.0)
        assert (report.new, report.bad_lines) == (1, 1)
        noted = history.conn.execute("SELECT reason FROM set_aside").fetchall()
    assert len(noted) == 1


def test_outcomes_hold_belief_against_what_came(database: Path, spool: Spool) -> None:
    """The belief about the job as it ran: as changed where dlqueue acted, as written otherwise."""
    with open_history(database) as history:
        for number, (mode, holdout) in enumerate(
            [(Mode.ACT, False), (Mode.ACT, True), (Mode.SHADOW, False)]
        ):
            token = f"d1-{number:016x}"
            decisions.record_proposals(
                history, [proposal(token, mode=mode, holdout=holdout)], "j", number
            )
            ids = {"job_id": 10 + number}
            file = spool(f"{number}.json", record_id=f"r{number}", identity=ids, decision=token)
        ingest_folder(history, file.parent, now_s=2000.0)
        decisions.record_proposals(history, [proposal("d1-00000000000000ff")], "j", 99)
        found = fair_outcomes(history.conn, database, 10)
        newest = fair_outcomes(history.conn, database, 2)
    assert [(r.acted, r.predicted, r.low, r.high) for r in found] == [
        (False, 50.0, 40.0, 60.0),
        (False, 50.0, 40.0, 60.0),
        (True, 100.0, 80.0, 120.0),
    ]
    assert {(round(r.achieved, 1), r.factor) for r in found} == {
        (129.1, 1.25)
    }  # of the whole run; 136.5 steady
    assert len(newest) == 2
