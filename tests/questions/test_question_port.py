"""Questions over the network: a real munged, a real TCP connection, who may see what."""

import json
import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from slurm_ext.advisor.limits.partition_limits import ClusterRules
from slurm_ext.core.errors import HistoryError, RefusedError, WireError
from slurm_ext.core.records import Submission
from slurm_ext.questions.addresses import AdvisorAddresses
from slurm_ext.questions.answers import document_of
from slurm_ext.questions.client import ask
from slurm_ext.slurm import JobInfo, MemoryClient
from tests.questions.port_rig import (
    GOLDEN,
    USER,
    Rig,
    as_others,
    name_of,
    needs_munge,
)

pytestmark = needs_munge


QUESTIONS: dict[str, dict[str, Any]] = {
    "explain": {"job": "2"},
    "jobs": {"limit": 20, "everybody": True},
    "history_runs": {"limit": 20},
    "history_job": {"job_id": 2},
    "ranks": {"name": GOLDEN["identity"]["job_name"], "gpu_mem_mib": 40960},
}


@pytest.mark.parametrize("kind", QUESTIONS)
def test_the_answer_is_what_the_history_says_where_it_lies(rig: Rig, kind: str) -> None:
    """To the last figure, for who may see all of it."""
    here = json.loads(json.dumps(document_of(rig.here, kind, **QUESTIONS[kind])))
    assert rig.ask(kind, **QUESTIONS[kind]) == here
    assert rig.counted == [kind]


def test_a_prediction_comes_with_its_runs_and_the_policy_there(rig: Rig) -> None:
    """So that a node without a history says the same."""
    rig.advisor.settings = replace(rig.here, values={**rig.here.values, "policy.min_gain": 0.5})
    job = Submission(script="#!/bin/sh\n", user_id=os.getuid())
    reply = ask(AdvisorAddresses(rig.there), "predict", {"submission": job})
    assert (reply["action"], reply["past"]) == ("leave", [])
    assert reply["policy"]["policy.min_gain"] == 0.5
    assert "known" in ask(AdvisorAddresses(rig.there), "what_if", {"submission": job})


@as_others
def test_a_user_sees_own_jobs(rig: Rig, as_user: Callable[[int], None]) -> None:
    """And is told that another's are not."""
    as_user(USER)
    assert {job["job_id"] for job in rig.ask("jobs", limit=9)["jobs"]} == {2, 3}
    assert {run["job_id"] for run in rig.ask("history_runs", limit=9)["runs"]} == {2, 3}
    assert rig.ask("explain", job="2")["runs"][0]["state"] == "COMPLETED"
    for kind, fields in (("explain", {"job": "4"}), ("history_job", {"job_id": 4})):
        with pytest.raises(RefusedError, match=f"4 is not {name_of(USER)}'s job: operators"):
            rig.ask(kind, **fields)
    for wanted in ({"user": "root"}, {"everybody": True}):
        with pytest.raises(RefusedError, match="operators alone see others'"):
            rig.ask("jobs", limit=9, **wanted)
    with pytest.raises(RefusedError, match="--user root"):
        rig.ask("ranks", name="train.sh", user="root")


@as_others
def test_a_job_that_slurm_hides_is_unknown(rig: Rig, as_user: Callable[[int], None]) -> None:
    """PrivateData: no word on whether there is one; as long as nobody has looked, too."""
    as_user(USER)
    rig.advisor.rules = ClusterRules()
    for job_id in (4, 77):
        with pytest.raises(HistoryError, match=f"knows nothing of {job_id};"):
            rig.ask("explain", job=str(job_id))


@as_others
def test_a_dependency_tells_nothing_of_the_job_it_is_on(
    rig: Rig, as_user: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """PrivateData: anybody may depend on any number; the answer is as if no job had it."""
    as_user(USER)
    rig.advisor.rules = ClusterRules()
    waits = JobInfo(job_id=90, user_id=USER, state="PENDING", reason="Dependency")
    waits = replace(waits, dependency="afterok:70_*(unfulfilled),afterany:80(unfulfilled)")
    secret = JobInfo(job_id=80, user_id=0, user_name="root", name="secret", state="RUNNING")
    tasks = (replace(secret, job_id=70 + n, array_job_id=70, array_task_id=n) for n in (0, 1))
    answers = []
    for others in ((secret, *tasks), ()):
        slurm = MemoryClient(known_jobs=(waits, *others))
        monkeypatch.setattr("slurm_ext.slurm.CommandClient", lambda slurm=slurm, **_: slurm)
        answers.append(rig.ask("explain", job="90")["queue"]["cause"])
    assert answers[0] == answers[1]
    assert [row["job"] for row in answers[0]["jobs"]] == ["70", "80"]
    rig.advisor.rules = ClusterRules(hides_others=False)
    monkeypatch.setattr(
        "slurm_ext.slurm.CommandClient", lambda **_: MemoryClient(known_jobs=(waits, secret))
    )
    shown = rig.ask("explain", job="90")["queue"]["cause"]["jobs"]
    assert [row["name"] for row in shown] == [None, "secret"]


@as_others
@pytest.mark.parametrize("by", ["operator", "trusted"])
def test_operators_see_everybodys(rig: Rig, as_user: Callable[[int], None], by: str) -> None:
    """By Slurm's AdminLevel, or by the settings; PrivateData hides nothing from them."""
    as_user(USER)
    if by == "operator":
        rig.advisor.rules = ClusterRules(operators=frozenset({name_of(USER)}))
    else:
        values = {**rig.here.values, "advisor.trusted_uids": [0, USER]}
        rig.advisor.settings = replace(rig.here, values=values)
    assert len(rig.ask("jobs", limit=9, everybody=True)["jobs"]) == 4
    assert rig.ask("explain", job="4")["job_id"] == 4


@as_others
def test_a_prediction_is_of_the_signers_job(rig: Rig, as_user: Callable[[int], None]) -> None:
    """Whatever the question says."""
    as_user(USER)
    for job in (Submission(user_id=0), Submission(user_name="root")):
        with pytest.raises(WireError, match="ask about your own jobs"):
            ask(AdvisorAddresses(rig.there), "predict", {"submission": job})
