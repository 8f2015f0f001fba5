"""A token in another user's environment, record or job does nothing."""

import pytest

from slurm_ext.history.ingest.decisions import claim, decision, record_proposals
from slurm_ext.history.ingest.spool_folder import ingest_folder
from slurm_ext.history.store.schema import own_decisions
from slurm_ext.history.store.store import History
from slurm_ext.history.views.queries import job
from tests.history.conftest import Spool, add_decision, add_run
from tests.history.ingest.test_history_decisions import KEYS, TOKEN, keys_of_runs, proposal

ADA, EVE = 1000, 666  # the golden record is ada's


def tokens(history: History) -> dict[int, str | None]:
    """The decision that each job's run names."""
    return dict(history.conn.execute("SELECT job_id, decision FROM runs").fetchall())


@pytest.mark.parametrize("late", [False, True], ids=["before the run", "after the run"])
def test_a_copied_token_ties_nothing_and_leaves_no_trace(
    history: History, spool: Spool, late: bool
) -> None:
    """Eve's job with ada's token is first; ada's own job gets the decision all the same."""
    if not late:
        record_proposals(history, [proposal(uid=ADA)], "j", 1)
    eves = spool("eve.json", record_id="eve", identity={"job_id": 7, "uid": EVE, "user": "eve"})
    ingest_folder(history, eves.parent, now_s=2000.0)
    if late:
        record_proposals(history, [proposal(uid=ADA)], "j", 1)
    assert tokens(history) == {7: None}
    assert decision(history, job_id=7) is None
    script_args, script, *_ = keys_of_runs(history)[0]
    assert (script_args, script) == (None, None)
    ingest_folder(history, spool().parent, now_s=3000.0)
    assert tokens(history) == {7: None, 1042: TOKEN}
    assert keys_of_runs(history)[1] == tuple(KEYS.values())
    known = job(history, 1042)
    assert known is not None
    assert known["decision"]["token"] == TOKEN


def test_a_job_of_another_user_cannot_be_given_a_decision(history: History) -> None:
    """Neither by the id that it will have, nor as a task of somebody's array."""
    record_proposals(history, [proposal(uid=EVE)], "j", 1)
    assert not claim(history, TOKEN, 1042, uid=ADA, now_s=1.0)
    assert claim(history, TOKEN, 7, uid=EVE, now_s=1.0)
    assert not claim(history, TOKEN, 7, uid=ADA, now_s=2.0)
    add_run(history.conn, 1, job_id=1042, uid=ADA, array_job_id=7)
    assert decision(history, job_id=1042) is None


def test_a_job_is_told_its_own_users_decision(history: History) -> None:
    """Eve's row for ada's job id, from before the rule, is not shown once the job ran."""
    add_decision(history.conn, "d1-ada", job_id=5, uid=ADA)
    add_decision(history.conn, "d1-eve", job_id=5, uid=EVE)
    newest = decision(history, job_id=5)
    add_run(history.conn, 1, job_id=5, uid=ADA)
    by_its_run = decision(history, job_id=5)
    assert [row and row["token"] for row in (newest, by_its_run)] == ["d1-eve", "d1-ada"]


def test_tokens_copied_before_the_rule_are_struck_out(history: History) -> None:
    """By the migration; a run whose user is not known keeps its token."""
    add_decision(history.conn, "d1-ada", job_id=1, uid=ADA)
    for number, uid in enumerate((ADA, EVE, None), 1):
        add_run(history.conn, number, uid=uid, decision="d1-ada")
    own_decisions(history.db)
    assert tokens(history) == {1: "d1-ada", 2: None, 3: "d1-ada"}
