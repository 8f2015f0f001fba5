"""The ledger's columns, and which run claims which decision."""

import json
from dataclasses import replace
from typing import Any

import pytest

from slurm_ext.core.errors import RecordError
from slurm_ext.core.records import Edits, Level
from slurm_ext.history.ingest import decisions, journal
from slurm_ext.history.ingest.proposals import line_of, proposal_of
from slurm_ext.history.store.names import KEY_COLUMNS, STORED_LEVELS
from slurm_ext.history.store.store import History
from tests.history.conftest import add_decision, add_run, insert
from tests.history.ingest.ingest_examples import DECISION, TOKEN, predicted, proposal


def row(history: History, token: str = TOKEN) -> dict[str, Any]:
    """The ledger's row."""
    found = decisions.decision(history, token=token)
    assert found is not None
    return found


ELSEWHERE = (
    "crowded",
    *(
        f"{when}_else_{end}"
        for when in ("before", "after")
        for end in ("samples_per_s", "low", "high")
    ),
)


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
        keys={level: 20 + number for number, level in enumerate(STORED_LEVELS)},
        factor=1.5,
        model="m",
        sharing={"kind": "mps"},
        buckets={"caps": "4194304"},
        elastic="2-4",
        ranks=3,
    )
    assert decisions.record_proposals(history, [full], "j", 7) == 1
    found = row(history)
    edits = json.loads(found.pop("edits"))
    assert (edits["cpus_per_task"], edits["env"]) == (13, {})
    assert json.loads(found.pop("sharing")) == {"kind": "mps"}
    assert json.loads(found.pop("buckets")) == {"caps": "4194304"}
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
        **dict.fromkeys(ELSEWHERE),
        "factor_beside": 1.0,
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
        "ranks": 3,
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
    line = line_of(proposal(uid=value)).encode()
    if held:
        assert proposal_of(line).uid == value
        return
    with pytest.raises(RecordError, match=f"uid is {value}, expected <class 'int'>"):
        proposal_of(line)


@pytest.mark.parametrize("value", [float("inf"), float("nan"), [1], True, "1", 1e19])
def test_what_sqlite_cannot_hold_is_refused(value: Any) -> None:
    """Before it costs the lines beside it."""
    with pytest.raises(RecordError, match=r"journal: is not a proposal: .*factor is "):
        proposal_of(line_of(proposal(factor=value)).encode())


def test_half_a_character_costs_no_line(history: History) -> None:
    """SQLite takes none: any text of a line becomes escapes."""
    odd = proposal(model="m\ud800", user="\udc80", account="\ud801")
    assert decisions.record_proposals(history, [odd], "j", 5) == 1
    row = decisions.decision(history, token=TOKEN)
    assert row is not None
    assert (row["model"], row["user"], row["account"]) == ("m\\ud800", "\\udc80", "\\ud801")


def test_the_first_job_claims_and_is_told_so_again(history: History) -> None:
    """Another job, and a token that nobody knows, get nothing."""
    decisions.record_proposals(history, [proposal(uid=5)], "j", 1)
    assert decisions.claim(history, TOKEN, 7, uid=5, now_s=50.0)
    assert decisions.claim(history, TOKEN, 7, uid=5, now_s=60.0)
    assert not decisions.claim(history, TOKEN, 8, uid=5, now_s=70.0)
    assert not decisions.claim(history, "d1-none", 7, uid=5, now_s=70.0)
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
        known = {"job_id": 10 + number, "uid": 5, "decision": TOKEN, "ingested_s": 5.0}
        add_run(history.conn, number, **known, **columns)
        insert(history.conn, "loader_runs", run=number, key_script=1, key_kind=2)
    keys = {Level.SCRIPT: 77, Level.USER_NAME: 78}
    decisions.record_proposals(history, [proposal(uid=5, keys=keys)], "j", 1)
    found = row(history)
    assert (found["job_id"], found["claimed_s"], found["state"]) == (claims, 5.0, "claimed")
    sql = "SELECT key_script, key_user_name, key_kind FROM loader_runs ORDER BY run"
    taught = [(77, 78, 2), (1, None, 2)]
    assert history.conn.execute(sql).fetchall() == (taught if claims != 12 else taught[::-1])


def test_a_late_proposal_without_keys_still_is_claimed(history: History) -> None:
    """By the run that came before it."""
    add_run(history.conn, 1, job_id=5, uid=5, decision=TOKEN)
    decisions.record_proposals(history, [proposal(uid=5)], "j", 1)
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
