"""Journals, proposals, actions, set-aside files and rows: the last that counts, the first not."""

import errno
import json
import time
import zlib
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.core.actions import Action, encode_action
from slurm_ext.core.errors import HistoryError, RecordError
from slurm_ext.core.records import Decision, Edits, Interval, Level, Mode, Prediction, Shape
from slurm_ext.history.ingest import actions, decisions, journal, rows, spool_folder
from slurm_ext.history.ingest.actions import action_files, actions_of, record_actions
from slurm_ext.history.ingest.insert import IngestResult, Inserter, apply_final_state
from slurm_ext.history.ingest.proposals import MAX_LINE_BYTES, Proposal, line_of, proposal_of
from slurm_ext.history.ingest.quarantine import note_quarantined, quarantine
from slurm_ext.history.ingest.rows import RecordRows
from slurm_ext.history.ingest.spool_folder import ingest_folder
from slurm_ext.history.store.names import KEY_COLUMNS
from slurm_ext.history.store.store import History, open_history
from tests.history.conftest import Spool, add_decision, add_run, insert

DAY_S = 86400.0
TOKEN = "d1-0123456789abcdef"


@pytest.fixture
def history(database: Path) -> Iterator[History]:
    """An empty one."""
    with open_history(database) as found:
        yield found


def predicted(rate: float) -> Prediction:
    """Of one shape; each of its figures is another number."""
    return Prediction(
        shape=Shape(cpus_per_task=1, num_workers=1),
        samples_per_s=rate,
        interval=Interval(rate - 1, rate + 2, 0.8),
        bottleneck=f"b{rate:.0f}",
        level=Level.SCRIPT,
        runs=3,
    )


DECISION = Decision(
    action="change",
    reason="why",
    before=Shape(cpus_per_task=11, num_workers=12),
    after=Shape(cpus_per_task=13, num_workers=14),
    predicted_before=predicted(50.0),
    predicted_after=replace(predicted(100.0), level=Level.KIND, runs=4),
)


def proposal(token: str = TOKEN, **changes: Any) -> Proposal:
    """A proposal whose figures all differ."""
    values: dict[str, Any] = {"decided_s": 1000.0, "mode": Mode.ACT, "decision": DECISION}
    return Proposal(token=token, **{**values, **changes})


def row(history: History, token: str = TOKEN) -> dict[str, Any]:
    """The ledger's row."""
    found = decisions.decision(history, token=token)
    assert found is not None
    return found


def test_every_column_of_the_ledger(history: History) -> None:
    """Each has its own figure, of the decision or of the submission."""
    full = proposal(
        holdout=True,
        user="ada",
        uid=5,
        job_name="job",
        account="acc",
        partition="par",
        edits=Edits(cpus_per_task=13),
        message="hello",
        keys={level: 20 + number for number, level in enumerate(Level)},
        factor=1.5,
        model="m",
        sharing={"kind": "mps"},
        elastic="2-4",
    )
    assert decisions.record_proposals(history, [full], "j", 7) == 1
    found = row(history)
    edits = json.loads(found.pop("edits"))
    assert (edits["cpus_per_task"], edits["env"]) == (13, {})
    assert json.loads(found.pop("sharing")) == {"kind": "mps"}
    assert found == {
        "id": 1,
        "token": TOKEN,
        "state": "proposed",
        "decided_s": 1000.0,
        "job_id": None,
        "claimed_s": None,
        "mode": "act",
        "holdout": 1,
        "action": "change",
        "reason": "why",
        "user": "ada",
        "uid": 5,
        "job_name": "job",
        "account": "acc",
        "partition": "par",
        "before_cpus": 11,
        "before_workers": 12,
        "after_cpus": 13,
        "after_workers": 14,
        "before_samples_per_s": 50.0,
        "before_low": 49.0,
        "before_high": 52.0,
        "before_bottleneck": "b50",
        "after_samples_per_s": 100.0,
        "after_low": 99.0,
        "after_high": 102.0,
        "after_bottleneck": "b100",
        "interval_level": 0.8,
        "level": "same kind of program",
        "runs": 4,
        "factor": 1.5,
        "message": "hello",
        "model": "m",
        "elastic": "2-4",
        **{name: 20 + number for number, name in enumerate(KEY_COLUMNS)},
    }
    assert journal.offset(history, "j") == 7


@pytest.mark.parametrize(
    ("before", "after", "basis"),
    [
        (50.0, None, ("same script", 3)),
        (None, 100.0, ("same script", 3)),
        (None, None, (None, None)),
    ],
)
def test_a_proposal_rests_on_the_prediction_it_has(
    history: History,
    before: float | None,
    after: float | None,
    basis: tuple[str | None, int | None],
) -> None:
    """Of the job as changed, else as written; without any, nothing is said of it."""
    believed = [None if rate is None else predicted(rate) for rate in (before, after)]
    decision = replace(DECISION, predicted_before=believed[0], predicted_after=believed[1])
    decisions.record_proposals(history, [proposal(decision=decision)], "j", 1)
    found = row(history)
    assert (found["level"], found["runs"]) == basis
    assert (found["before_samples_per_s"], found["after_samples_per_s"]) == (before, after)
    assert (found["sharing"], found["elastic"], found["message"]) == (None, None, None)


def test_a_proposal_counts_once(history: History) -> None:
    """However often its line is read; the offset is the last one that was told."""
    two = [proposal(), proposal("d1-2")]
    assert decisions.record_proposals(history, two, "j", 5) == 2
    assert decisions.record_proposals(history, [*two, proposal("d1-3")], "j", 9) == 1
    assert journal.offset(history, "j") == 9
    assert journal.offset(history, "k") == 0


@pytest.mark.parametrize(
    ("value", "held"),
    [
        ((1 << 63) - 1, True),
        (-(1 << 63), True),
        (1 << 63, False),
        (-(1 << 63) - 1, False),
    ],
)
def test_whole_numbers_of_the_ledger_end_where_sqlites_do(value: int, held: bool) -> None:
    """One beyond is refused by its name; so is what is no number and no text."""
    if held:
        decisions.row_of(proposal(uid=value))
        return
    with pytest.raises(RecordError) as error:
        decisions.row_of(proposal(uid=value))
    assert str(error.value) == f"journal: uid = {value} is no value of the ledger"


@pytest.mark.parametrize("value", [float("inf"), float("nan"), [1], b"x"])
def test_what_sqlite_cannot_hold_is_refused(value: Any) -> None:
    """Before it costs the lines beside it."""
    with pytest.raises(RecordError, match=r"journal: factor = .* is no value of the ledger"):
        decisions.row_of(proposal(factor=value))


def test_the_first_job_claims_and_is_told_so_again(history: History) -> None:
    """Another job, and a token that nobody knows, get nothing."""
    decisions.record_proposals(history, [proposal()], "j", 1)
    assert decisions.claim(history, TOKEN, 7, now_s=50.0)
    assert decisions.claim(history, TOKEN, 7, now_s=60.0)
    assert not decisions.claim(history, TOKEN, 8, now_s=70.0)
    assert not decisions.claim(history, "d1-none", 7, now_s=70.0)
    found = row(history)
    assert (found["state"], found["job_id"], found["claimed_s"]) == ("claimed", 7, 50.0)


def test_a_decision_by_job_is_the_newest(history: History) -> None:
    """The token counts before the job; an array's task has its array's; else None."""
    for token, job_id in (("a", 7), ("b", 7), ("c", 90)):
        add_decision(history.conn, token, job_id=job_id)
    add_run(history.conn, 1, job_id=91, array_job_id=90)
    found = [
        decisions.decision(history, token="a", job_id=90),
        decisions.decision(history, job_id=7),
        decisions.decision(history, job_id=91),
    ]
    assert [one and one["token"] for one in found] == ["a", "b", "c"]
    assert decisions.decision(history, job_id=8) is None
    assert decisions.decision(history, token="d") is None


@pytest.mark.parametrize(
    ("first", "second", "claims"),
    [
        ({"start_s": 2.0}, {"start_s": 1.0}, 12),
        ({"start_s": 1.0}, {"start_s": 1.0}, 11),
        ({"start_s": 1.0}, {"start_s": 2.0}, 11),
        ({"start_s": 1.0, "array_job_id": 90}, {"start_s": 2.0}, 90),
    ],
)
def test_the_earliest_run_claims_a_proposal_that_comes_late(
    history: History, first: dict[str, Any], second: dict[str, Any], claims: int
) -> None:
    """Its job's runs get the submission's keys, the other job's keep theirs."""
    for number, columns in ((1, first), (2, second)):
        add_run(history.conn, number, job_id=10 + number, decision=TOKEN, ingested_s=5.0, **columns)
        insert(history.conn, "loader_runs", run=number, key_script=1, key_kind=2)
    keys = {Level.SCRIPT: 77, Level.USER_NAME: 78}
    decisions.record_proposals(history, [proposal(keys=keys)], "j", 1)
    found = row(history)
    assert (found["job_id"], found["claimed_s"], found["state"]) == (claims, 5.0, "claimed")
    sql = "SELECT key_script, key_user_name, key_kind FROM loader_runs ORDER BY run"
    taught = [(77, 78, 2), (1, None, 2)]
    assert history.conn.execute(sql).fetchall() == (taught if claims != 12 else taught[::-1])


def test_a_late_proposal_without_keys_still_is_claimed(history: History) -> None:
    """By the run that came before it."""
    add_run(history.conn, 1, job_id=5, decision=TOKEN)
    decisions.record_proposals(history, [proposal()], "j", 1)
    assert row(history)["job_id"] == 5


def test_elastic_jobs_by_id_user_and_name(history: History) -> None:
    """The newest word of each; one without a job or a word is not there."""
    for token, columns in (
        ("a", {"job_id": 1, "uid": 2, "job_name": "n", "elastic": "old"}),
        ("b", {"job_id": 1, "uid": 2, "job_name": "n", "elastic": "new"}),
        ("c", {"job_id": 1, "uid": 3, "job_name": "n", "elastic": "other"}),
        ("d", {"job_id": 4, "uid": 2, "job_name": "n"}),
        ("e", {"uid": 2, "job_name": "n", "elastic": "none"}),
    ):
        add_decision(history.conn, token, **columns)
    assert decisions.elastic_jobs(history) == {(1, 2, "n"): "new", (1, 3, "n"): "other"}


def test_a_solo_key_is_made_of_script_and_user() -> None:
    """Nothing known is no key; the script counts before the user and the name."""
    nothing = {"key_script": None, "key_user_name": None}
    assert decisions.solo_key_of(None) is decisions.solo_key_of(nothing) is None
    both = decisions.solo_key_of({"key_script": 5, "key_user_name": 6})
    script = decisions.solo_key_of({"key_script": 5, "key_user_name": None})
    user = decisions.solo_key_of({"key_script": None, "key_user_name": 6})
    assert (both, script, user) == ("8000000000000005", "8000000000000005", "8000000000000006")


@pytest.mark.parametrize(
    ("text", "start", "rest", "chunk"),
    [
        (b"ab\ncd\n", 0, False, b"ab\ncd\n"),
        (b"ab\ncd\n", 3, False, b"cd\n"),
        (b"ab\ncd", 0, False, b"ab\n"),
        (b"ab\ncd", 3, False, b""),
        (b"ab\ncd", 3, True, b"cd"),
        (b"ab\ncd\nef\ngh", 0, False, b"ab\ncd\n"),
        (b"ab\ncd\nef\ngh", 0, True, b"ab\ncd\n"),
        (b"abcdefghij", 0, False, b"abcdefgh"),
        (b"abcdefg", 0, False, b""),
        (b"abcdefg", 0, True, b"abcdefg"),
        (b"abcdefgh", 0, False, b"abcdefgh"),
        (b"", 0, True, b""),
    ],
)
def test_whole_lines_of_a_chunk(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    text: bytes,
    start: int,
    rest: bool,
    chunk: bytes,
) -> None:
    """Here chunks are of eight bytes. One without a line's end is passed as it is, never stuck."""
    assert journal._CHUNK_BYTES == 4 << 20
    monkeypatch.setattr(journal, "_CHUNK_BYTES", 8)
    path = tmp_path / "j"
    path.write_bytes(text)
    assert journal.whole_lines(path, start, rest=rest) == chunk


def test_a_journal_goes_when_all_of_it_is_in(history: History) -> None:
    """Not a byte before; what was read of it is forgotten with it, another's is not."""
    path = history.path.with_name("journal-1")
    path.write_bytes(b"12345")
    for name, offset in ((path.name, 4), ("other", 3)):
        insert(history.conn, "journals", name=name, offset=offset)
    assert not journal.delete_if_recorded(history, path)
    assert path.exists()
    history.conn.execute("UPDATE journals SET offset = 5 WHERE name = ?", (path.name,))
    assert journal.delete_if_recorded(history, path)
    assert not path.exists()
    assert history.conn.execute("SELECT * FROM journals").fetchall() == [("other", 3)]


def action(name: str, **changes: Any) -> Action:
    """Something that was done to job 7."""
    values: dict[str, Any] = {"at_s": 1.0, "kind": "queue", "mode": "act", "subject": "7"}
    return Action(move_id=name, **{**values, "job_id": 7, "done": "hold", "why": "w", **changes})


@pytest.fixture
def ledger(history: History) -> Path:
    """A file of the first day of 1970, with one action."""
    folder = history.path.parent / "moves"
    folder.mkdir()
    path = folder / "queue-19700101.jsonl"
    path.write_text(encode_action(action("a")))
    return path


def test_files_of_actions_by_day(ledger: Path) -> None:
    """Oldest first, whichever loop wrote them; other names, folders and links are not looked at."""
    folder = ledger.parent
    for name in ("energy-19700103.jsonl", "zebra-19691231.jsonl", "pair-197001011.jsonl"):
        (folder / name).touch()
    for name in ("Pair-19700101.jsonl", "pair-19700101.json", "-19700101.jsonl"):
        (folder / name).touch()
    (folder / "elastic-19700101.jsonl").mkdir()
    (folder / "pair-19700105.jsonl").symlink_to(ledger)
    found = [path.name for path in action_files(folder)]
    assert found == ["zebra-19691231.jsonl", "queue-19700101.jsonl", "energy-19700103.jsonl"]
    assert action_files(folder / "absent") == []
    assert action_files(ledger) == []


@pytest.mark.parametrize(("now_s", "stays"), [(2 * DAY_S - 1, True), (2 * DAY_S, False)])
def test_a_days_file_stays_until_a_day_has_passed(
    history: History, ledger: Path, now_s: float, stays: bool
) -> None:
    """By the clock of Greenwich, whatever the zone; how far it was read goes with it."""
    assert actions.DAY_S == DAY_S
    time.tzset()
    report = record_actions(history, ledger, now_s=now_s)
    assert (report.new, report.bad_lines, ledger.exists()) == (1, 0, stays)
    read = [("moves/queue-19700101.jsonl", ledger.stat().st_size)] if stays else []
    assert history.conn.execute("SELECT * FROM journals").fetchall() == read


def test_a_file_as_long_as_before_is_not_read_again(history: History, ledger: Path) -> None:
    """A shorter one is another; a bad line of it is noted with its reason."""
    assert record_actions(history, ledger, now_s=0.0).new == 1
    ledger.write_bytes(b"x" * (ledger.stat().st_size - 1) + b"\n")
    assert record_actions(history, ledger, now_s=0.0).bad_lines == 0
    ledger.write_bytes(b"x\n")
    assert record_actions(history, ledger, now_s=4.0).bad_lines == 1
    ((name, source, reason, size, at_s),) = history.conn.execute(
        "SELECT name, source, reason, size_bytes, aside_s FROM set_aside"
    )
    assert name == f"{ledger.name}-line-{sha256(b'x' + bytes([10])).hexdigest()[:16]}"
    assert (source, size, at_s) == (str(ledger), 2, 4.0)
    assert reason.startswith("moves: is not an action: ")


def test_actions_in_order_with_all_their_columns(history: History, ledger: Path) -> None:
    """By time, then as they came in; an outcome that comes later is added, null takes none away."""
    full = action("b", before={"a": 1}, after={"c": None}, outcome="o", at_s=0.5)
    later = [full, action("a", at_s=9.0, outcome="late"), replace(full, outcome=None), action("d")]
    with ledger.open("a") as stream:
        stream.writelines(map(encode_action, later))
    assert record_actions(history, ledger, now_s=0.0).new == 3
    found = actions_of(history, 7)
    assert [one["move_id"] for one in found] == ["b", "a", "d"]
    assert found[0] == {
        "move_id": "b",
        "at_s": 0.5,
        "kind": "queue",
        "mode": "act",
        "subject": "7",
        "job_id": 7,
        "done": "hold",
        "why": "w",
        "before": {"a": 1},
        "after": {"c": None},
        "outcome": "o",
    }
    assert (found[1]["at_s"], found[1]["outcome"]) == (1.0, "late")
    assert actions_of(history, 8) == []


def test_the_final_state_of_all_of_a_jobs_nodes(history: History) -> None:
    """Of this try only; how many changed."""
    for number, (restart, state, source) in enumerate(
        (
            (0, "COMPLETED", "node"),
            (0, "FAILED", "node"),
            (0, "COMPLETED", "epilog"),
            (1, "COMPLETED", "node"),
        ),
        1,
    ):
        add_run(history.conn, number, job_id=7, restart=restart, state=state, source=source)
    add_run(history.conn, 5, job_id=8, source="node")
    assert apply_final_state(history, 7, 0, "FAILED") == 1
    states = [state for (state,) in history.conn.execute("SELECT state FROM runs ORDER BY id")]
    assert states == ["FAILED", "FAILED", *["COMPLETED"] * 3]
    assert apply_final_state(history, 7, 0, "CANCELLED") == 3
    assert apply_final_state(history, 7, 0, "CANCELLED") == 0
    assert apply_final_state(history, 9, 0, "CANCELLED") == 0


@pytest.mark.parametrize(
    ("first", "second", "state", "result"),
    [
        (("reconcile", "TIMEOUT"), ("epilog", "FAILED"), "TIMEOUT", "replaced"),
        (("reconcile", "FAILED"), ("epilog", "COMPLETED"), "COMPLETED", "replaced"),
        (("reconcile", "UNKNOWN"), ("node", "FAILED"), "FAILED", "replaced"),
        (("node", "COMPLETED"), ("epilog", "FAILED"), "FAILED", "replaced"),
        (("epilog", "FAILED"), ("reconcile", "TIMEOUT"), "TIMEOUT", "duplicate"),
        (("epilog", "FAILED"), ("node", "TIMEOUT"), "FAILED", "duplicate"),
        (("node", "FAILED"), ("node", "TIMEOUT"), "FAILED", "duplicate"),
        (("other", "FAILED"), ("node", "TIMEOUT"), "TIMEOUT", "replaced"),
    ],
)
def test_two_witnesses_of_one_run(
    history: History,
    spool: Spool,
    first: tuple[str, str],
    second: tuple[str, str],
    state: str,
    result: str,
) -> None:
    """The nearer to its end is kept; what Slurm saw of it counts, whichever came first."""
    inserter = Inserter(history.conn)
    results = []
    for source, seen in (first, second):
        body = json.loads(spool(outcome={"source": source, "state": seen}).read_text())
        results.append(inserter.put(rows.rows_of(body), 1.0))
    assert results == [IngestResult.TAKEN, result]
    assert history.conn.execute("SELECT state FROM runs").fetchall() == [(state,)]


def test_a_file_that_is_set_aside(history: History) -> None:
    """Its name keeps plain letters, inode and time; the note says where it was, and why."""
    path = history.path.parent / ("we ird\u00e9" + "x" * 200)
    path.write_bytes(b"12345")
    found = path.stat()
    quarantine(history, path, "torn", "d1g", now_s=3.0)
    quarantine(history, path, "torn", "d1g", now_s=4.0)
    name = f"we_ird_{'x' * 113}-{found.st_ino}-{found.st_mtime_ns}"
    assert history.conn.execute("SELECT * FROM set_aside").fetchall() == [
        (name, str(path), "torn", "d1g", 5, 3.0)
    ]
    folder = history.path.parent / "aside"
    assert (folder / name).read_bytes() == b"12345"
    assert folder.stat().st_mode & 0o777 == 0o700


def test_the_first_reason_stays(history: History) -> None:
    """A note of the same name changes nothing; half characters become escapes."""
    with history.transaction() as conn:
        note_quarantined(conn, "n", "s\udcff", "r\ud800", None, None, 1.0)
        note_quarantined(conn, "n", "t", "u", "v", 2, 3.0)
    wanted = [("n", "s\\udcff", "r\\ud800", None, None, 1.0)]
    assert history.conn.execute("SELECT * FROM set_aside").fetchall() == wanted


@pytest.mark.parametrize(
    ("columns", "shared"),
    [
        ((None, None, None), None),
        ((0, None, None), {"cpus": 0, "sockets": None, "gpus": None}),
        ((None, 0, None), {"cpus": None, "sockets": 0, "gpus": None}),
        ((None, None, ""), {"cpus": None, "sockets": None, "gpus": []}),
        ((1, 2, "G,H"), {"cpus": 1, "sockets": 2, "gpus": ["G", "H"]}),
    ],
)
def test_what_two_jobs_had_in_common(columns: Any, shared: dict[str, Any] | None) -> None:
    """The columns say it as the record did; nothing in common is not the same as not known."""
    assert rows.shared_resources(*columns) == shared
    found = rows.corunner_row({"job_id": 7, "overlap_s": 2.5, "shared": shared})
    assert found == (7, 2.5, *columns)
    assert rows.corunner_row({"job_id": 7}) == (7, None, None, None, None)


def test_names_of_gpus_stay_within_bounds() -> None:
    """Eighty characters, sixteen kinds, each once; a comma would part one into two."""
    long = rows.corunner_row({"job_id": 7, "shared": {"gpus": ["a,b", "x" * 81]}})
    assert long[-1] == "a_b," + "x" * 80
    assert rows._gpu_models(["b", "a", "b", "c" * 81]) == f"a + b + {'c' * 80}"
    assert rows._gpu_models([f"{n:02d}" for n in range(17)]).count(" + ") == 15


@pytest.mark.parametrize(("extra", "kept"), [(0, True), (1, False)])
def test_a_share_of_mps_stays_within_bounds(spool: Spool, extra: int, kept: bool) -> None:
    """16 KiB of JSON; the run counts all the same."""
    body = json.loads(spool().read_text())
    mps = {"g": "x" * (16 * 1024 - len(json.dumps({"g": ""})) + extra)}
    run = rows.rows_of({**body, "mps": mps}).run
    assert run.mps == (json.dumps(mps) if kept else None)
    assert run.record_id == body["record_id"]


def test_lists_of_a_record_are_counted(spool: Spool) -> None:
    """GPUs as a list or as their number, for the run and its loader alike; none is none."""
    body = json.loads(spool(allocation={"gpus": ["0", "1"]}, host={"gpus": ["B", "A"]}).read_text())
    run = rows.rows_of(body).run
    assert (run.gpus, run.node_gpus, run.node_gpu_model) == (2, 2, "A + B")
    body["allocation"]["gpus"], body["host"]["gpus"] = 3, []
    found = rows.rows_of(body)
    assert (found.run.gpus, found.run.node_gpus, found.run.node_gpu_model) == (3, 0, None)
    assert found.loader is not None
    assert found.loader.gpus == 3
    body["allocation"]["gpus"] = None
    found = rows.rows_of(body)
    assert found.loader is not None
    assert (found.run.gpus, found.loader.gpus) == (None, 0)


def test_energy_adds_up_what_belongs_together() -> None:
    """GPUs to GPUs, parts of the node to one sum; the board's own counts first; 0 is measured."""

    def energy(**joules: float | None) -> tuple[float | None, float | None]:
        return rows.energy_of(((name, "J", "s"), value) for name, value in joules.items())

    assert energy() == (None, None)
    assert energy(gpu_energy=0.0, node_energy_cpu=1.0, node_energy_dram=2.0) == (0.0, 3.0)
    assert energy(node_energy_cpu=1.0, node_energy_all=0.0) == (None, 0.0)
    assert energy(gpu_energy=-1.0, node_energy_cpu=None) == (None, None)
    assert energy(gpu_util=5.0, energy_else=7.0) == (None, None)
    twice = [(("gpu_energy", "J", source), 2.0) for source in "ab"]
    assert rows.energy_of(twice) == (4.0, None)


def test_deflated_columns_come_back() -> None:
    """What is empty is not kept; a bomb is cut instead of filling memory."""
    for value in ({"a": [1, "é"]}, [0]):
        assert rows.inflated(rows.deflated(value)) == value
    assert rows.deflated({}) is rows.deflated(None) is rows.inflated(None) is None
    edge = b'"' + b"x" * ((8 << 20) - 2) + b'"'
    assert len(rows.inflated(zlib.compress(edge, 1))) == (8 << 20) - 2
    with pytest.raises(ValueError, match="Unterminated"):
        rows.inflated(zlib.compress(b'"x' + edge[1:], 1))


@pytest.mark.parametrize(
    ("records", "size", "batches"),
    [(2, 1 << 20, [2, 1]), (3, 1 << 20, [3]), (9, 1, [1, 1, 1]), (9, 1 << 20, [3])],
)
def test_batches_are_bounded(
    history: History,
    spool: Spool,
    monkeypatch: pytest.MonkeyPatch,
    records: int,
    size: int,
    batches: list[int],
) -> None:
    """In number and in bytes; each is read, inserted, committed and deleted in this order."""
    assert (spool_folder.BATCH_RECORDS, spool_folder.BATCH_BYTES) == (500, 16 << 20)
    monkeypatch.setattr(spool_folder, "BATCH_RECORDS", records)
    monkeypatch.setattr(spool_folder, "BATCH_BYTES", size)
    for number in range(3):
        spool(f"{number}.json", record_id=f"r{number}")
    steps: list[str] = []
    folder = history.path.parent / "spool"
    report = ingest_folder(history, folder, now_s=1.0, step=steps.append)
    assert (report.taken, report.duplicates, report.left) == (3, 0, 0)
    assert steps == [
        step
        for many in batches
        for step in ("read", *["insert"] * many, "committed", *["delete"] * many)
    ]
    assert list(folder.iterdir()) == []


def test_a_spool_that_is_no_folder_is_named(history: History) -> None:
    """With the system's reason."""
    with pytest.raises(HistoryError) as error:
        ingest_folder(history, history.path, now_s=0.0)
    assert str(error.value) == f"the spool {history.path} cannot be listed: Not a directory"


def test_aside_on_another_disk_is_a_hidden_folder_of_the_spool(
    history: History, spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Private as well; any other fault of the disk is told, and the file stays."""
    path, rename = spool("bad.json"), Path.rename
    refusal = errno.EXDEV

    def across(self: Path, target: Path) -> Path:
        if target.parent.name == "aside":
            raise OSError(refusal, "refused")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", across)
    refusal = errno.EACCES
    with pytest.raises(OSError, match="refused"):
        quarantine(history, path, "torn", None, now_s=3.0)
    assert path.exists()
    refusal = errno.EXDEV
    quarantine(history, path, "torn", None, now_s=3.0)
    near = path.parent / ".aside"
    assert near.stat().st_mode & 0o777 == 0o700
    (name,) = history.conn.execute("SELECT name FROM set_aside").fetchone()
    assert [found.name for found in near.iterdir()] == [name]
    path = spool("worse.json")
    quarantine(history, path, "torn", None, now_s=3.0)
    assert not path.exists()


def test_a_line_as_long_as_any_is_read_and_a_longer_one_named(history: History) -> None:
    """64 KiB with its newline; the note has the line's size and fingerprint."""
    assert MAX_LINE_BYTES == 65536
    spare = MAX_LINE_BYTES - len(line_of(proposal(message="")))
    fits, long = (line_of(proposal(message="x" * n)).encode() for n in (spare, spare + 1))
    assert len(fits) == MAX_LINE_BYTES
    path = history.path.with_name("journal-1")
    path.write_bytes(long + fits)
    report = journal.record_journal(history, path, now_s=9.0)
    assert (report.new, report.bad_lines) == (1, 1)
    digest = sha256(long).hexdigest()
    (note,) = history.conn.execute("SELECT * FROM set_aside").fetchall()
    reason = "journal: a line of 65537 bytes"
    assert note == (f"journal-1-line-{digest[:16]}", str(path), reason, digest, 65537, 9.0)


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
    assert "journal: is not a proposal: 'int' object has no attribute 'encode'" in reasons
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
    for name in ("sharing", "elastic", "model", "factor", "message", "holdout", "user", "uid"):
        del body[name]
    assert proposal_of(json.dumps(body).encode()) == replace(full, sharing=None)
    assert (full.user, full.uid, full.job_name, full.factor, full.holdout) == (
        "",
        -1,
        "",
        1.0,
        False,
    )


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
