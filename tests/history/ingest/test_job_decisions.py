"""The decision on a job that Slurm lists is found by its number, user and moment."""

from dataclasses import replace

import pytest

from slurm_ext.history.ingest.job_decisions import SubmittedJob, decision_of, token_of
from slurm_ext.history.store.store import History
from tests.history.conftest import add_decision

JOB = SubmittedJob(job_id=5, uid=7, job_name="n", early_s=1.0, late_s=4.0)
REQUEUED = replace(JOB, early_s=101.0, late_s=104.0, requeued=True)


def tied(history: History, job: SubmittedJob) -> str | None:
    """The token that is tied to the job."""
    row = decision_of(history, job)
    return None if row is None else str(row["token"])


def test_the_decision_of_a_job(history: History) -> None:
    """The tied one, else the claimed one of its user, name and moment; bounds are inside."""
    free = {"state": "proposed", "uid": 7, "job_name": "n"}
    add_decision(history.conn, "early", decided_s=1.0, **free)
    add_decision(history.conn, "late", decided_s=4.0, **free)
    add_decision(history.conn, "tied", job_id=6, uid=7)

    def found(claimed: str, job: SubmittedJob = JOB) -> str | None:
        return token_of(history.conn, history.path, job, claimed)

    assert [found("early"), found("late"), found("tied"), found("")] == [
        "early",
        "late",
        None,
        None,
    ]
    assert found("early", replace(JOB, job_id=6)) == "tied"
    assert found("early", replace(JOB, early_s=1.1)) is None
    assert found("late", replace(JOB, late_s=3.9)) is None
    assert found("early", replace(JOB, uid=8)) is found("early", replace(JOB, job_name="m")) is None
    assert found("", replace(JOB, job_id=6, uid=8)) is None
    assert found("early", REQUEUED) == "early"
    assert found("early", replace(REQUEUED, job_name="m")) is None


def test_a_number_that_came_again_has_the_new_jobs_decision(history: History) -> None:
    """An old job's row counts for no other job of its number, tied or not."""
    add_decision(history.conn, "old", job_id=5, uid=7, job_name="n", decided_s=-1000.0)
    assert tied(history, JOB) is token_of(history.conn, history.path, JOB, "") is None
    add_decision(history.conn, "new", job_id=5, uid=7, job_name="n", decided_s=2.0)
    assert tied(history, JOB) == token_of(history.conn, history.path, JOB, "") == "new"
    assert tied(history, replace(JOB, early_s=-1001.0, late_s=-998.0)) == "old"
    assert tied(history, replace(JOB, uid=8)) is None


def test_a_requeued_job_has_the_newest_decision_from_before(history: History) -> None:
    """Slurm set its submit time again; a job that was submitted later is another one."""
    for token, decided_s in (("old", -1000.0), ("own", 2.0), ("later", 200.0)):
        add_decision(history.conn, token, job_id=5, uid=7, job_name="n", decided_s=decided_s)
    assert tied(history, REQUEUED) == "own"
    assert tied(history, replace(REQUEUED, job_name="m")) is None


@pytest.mark.parametrize("requeued", [False, True])
def test_a_renamed_job_keeps_its_decision_until_a_requeue(history: History, requeued: bool) -> None:
    """While its submit time stands, its number and moment say enough."""
    add_decision(history.conn, "own", job_id=5, uid=7, job_name="before", decided_s=-5.0)
    renamed = replace(JOB, early_s=1.0 if requeued else -6.0, requeued=requeued)
    assert tied(history, renamed) == (None if requeued else "own")


def test_a_name_that_is_no_utf_8_is_looked_up_as_the_ledger_has_it(history: History) -> None:
    """Its bytes as escapes, as proposals are entered."""
    add_decision(history.conn, "own", job_id=5, uid=7, job_name="\\udce9", decided_s=2.0)
    assert tied(history, replace(REQUEUED, job_name="\udce9")) == "own"


@pytest.mark.parametrize(("decided_s", "found"), [(-290.0, "own"), (290.0, "own"), (-400.0, None)])
def test_a_tied_decision_outlasts_a_clock_that_is_set(
    history: History, decided_s: float, found: str | None
) -> None:
    """The job's own number within minutes of its submission is no other job's."""
    add_decision(history.conn, "own", job_id=5, uid=7, job_name="n", decided_s=decided_s)
    assert tied(history, JOB) == found
