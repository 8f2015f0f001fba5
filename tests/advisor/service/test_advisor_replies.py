"""Replies of the advisor: who may submit, what is journalled and logged."""

import json
import logging
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.advisor.pipeline.decide import Recommendation
from slurm_ext.advisor.pipeline.proposal import outcome_of
from slurm_ext.advisor.pipeline.respond import Response
from slurm_ext.advisor.service.advisor import Advisor, refusal
from slurm_ext.advisor.service.warm_up import JOB
from slurm_ext.core.job_keys import keys_of
from slurm_ext.core.records import Decision, Level, Mode, Shape, Submission
from slurm_ext.core.wire import encode_request
from slurm_ext.history.store.names import STORED_LEVELS
from tests.advisor.service.service_examples import shares
from tests.advisor.service.test_advisor_lines import always, journalled, settings, submit

KEPT = Decision(
    action="leave",
    reason="so",
    before=Shape(cpus_per_task=1, num_workers=0),
    after=Shape(cpus_per_task=1, num_workers=0),
)


def asked(advisor: Advisor, kind: str, job: Submission | None = JOB, **how: Any) -> dict[str, Any]:
    """The reply to one request of somebody who is not trusted."""
    line, _ = advisor.reply(encode_request(kind, job), trusted=how.get("trusted", False))
    reply: dict[str, Any] = json.loads(line)
    return reply


def test_a_ping_tells_of_runs_model_and_limits(advisor: Advisor) -> None:
    """And nothing else."""
    assert asked(advisor, "ping", None) == {
        "v": 1,
        "decision": None,
        "edits": {},
        "message": None,
        "runs": 3,
        "model": None,
        "limits": True,
    }


def test_only_the_trusted_submit(advisor: Advisor, tmp_path: Path) -> None:
    """Others are refused, and their connection ends."""
    reply, stays = advisor.reply(encode_request("submit", JOB), trusted=False)
    assert json.loads(reply)["error"] == "only slurmctld submits; ask with kind predict"
    assert not stays
    assert advisor.reply(encode_request("predict", JOB), trusted=False)[1]
    assert journalled(tmp_path) == []
    assert {name: sum(one.counts) for name, one in advisor.counters.answers.items()} == {
        "refused": 1,
        "predict": 1,
    }


def test_a_refusal_leaves_the_job_alone() -> None:
    """At most five hundred characters of reason."""
    assert json.loads(refusal("x" * 501)) == {
        "v": 1,
        "decision": None,
        "edits": {},
        "message": None,
        "error": "x" * 500,
    }


def test_late_answers_are_counted_with_the_sites_deadline(
    advisor: Advisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Milliseconds of the settings, seconds of the counters."""
    calls: list[Any] = []
    monkeypatch.setattr(advisor.counters, "answered", lambda *words: calls.append(words))
    advisor.settings = settings(advisor__deadline_ms=250, advisor__breaker_s=7.0)
    asked(advisor, "predict")
    (kind, seconds, deadline_s, breaker_s) = calls[0]
    assert (kind, deadline_s, breaker_s) == ("predict", 0.25, 7.0)
    assert 0 < seconds < 60


def test_root_the_service_and_slurm_are_trusted(advisor: Advisor) -> None:
    """The settings' uids beside the two."""
    advisor.settings = settings(advisor__trusted_uids=[64030])
    assert advisor.trusted_uids() == {0, os.getuid(), 64030}


def test_a_submission_is_journalled_with_every_field(advisor: Advisor, tmp_path: Path) -> None:
    """Who, what, when, on what it rests, and the reply as it was sent."""
    advisor.factors = always(1.5)
    job = replace(JOB, account="a", user_id=7)
    before = time.time()
    reply = submit(advisor, job)
    (line,) = journalled(tmp_path)
    token = reply["decision"]
    assert token.startswith("d1-")
    assert len(token) == 19
    assert reply["edits"]["env"]["DLQUEUE_DECISION"] == token
    assert before <= line["decided_s"] <= time.time()
    fields = ("token", "mode", "holdout", "user", "uid", "job_name", "account", "partition")
    assert [line[name] for name in fields] == [
        token,
        "act",
        False,
        "dlqueue",
        7,
        "warm-up",
        "a",
        "none",
    ]
    assert (line["message"], line["factor"], line["model"]) == (reply["message"], 1.5, None)
    assert (line["sharing"], line["elastic"]) == (None, None)
    keys = {level.value: key for level, key in keys_of(job).items() if level in STORED_LEVELS}
    assert sorted(map(str, line["keys"].values())) == sorted(map(str, keys.values()))
    assert list(line["keys"])


def test_what_cannot_be_recorded_is_not_done(
    advisor: Advisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reply has the reason; the decision is counted as unrecorded."""

    def full(_: str) -> None:
        raise OSError("the journal's disk is full")

    monkeypatch.setattr(advisor.journal, "append", full)
    reply = submit(advisor)
    assert reply == {
        "v": 1,
        "decision": None,
        "edits": {},
        "message": None,
        "error": "not recorded: the journal's disk is full",
    }
    assert advisor.counters.decisions == {("change", "unrecorded"): 1}


def test_a_decision_is_logged_with_its_fields(
    advisor: Advisor, caplog: pytest.LogCaptureFixture
) -> None:
    """Where the log wants decisions, and not in rehearsals."""
    caplog.set_level(logging.INFO)
    token = submit(advisor)["decision"]
    (record,) = [one for one in caplog.records if hasattr(one, "decision")]
    fields = ("decision", "action", "outcome", "partition", "mode")
    assert [getattr(record, name) for name in fields] == [token, "change", "done", "none", "act"]
    assert record.getMessage() == "it waits for data with 1 worker, which costs 88% of its speed"
    caplog.clear()
    advisor.logs_decisions = False
    submit(advisor)
    assert not caplog.records


def response(mode: Mode = Mode.ACT, action: str = "change", **values: Any) -> Response:
    """A response in this mode."""
    decision = replace(KEPT, action=action)
    return Response(recommendation=Recommendation(mode=mode, why="", decision=decision), **values)


@pytest.mark.parametrize(
    ("made", "outcome"),
    [
        (response(), "done"),
        (response(Mode.ADVISE), "told"),
        (response(Mode.SHADOW), "shadow"),
        (response(holdout=True), "held_out"),
        (response(action="leave", holdout=True), "held_out"),
        (response(action="leave"), "kept"),
        (response(Mode.SHADOW, action="leave"), "kept"),
        (response(action="leave", sharing=shares(Mode.ADVISE)), "told"),
        (response(action="leave", sharing=shares(Mode.ACT)), "done"),
        (response(action="leave", sharing=shares(Mode.ACT, share=False)), "kept"),
        (response(Mode.ADVISE, sharing=shares(Mode.ACT, share=False)), "told"),
        (response(Mode.ACT, sharing=shares(Mode.SHADOW)), "shadow"),
    ],
)
def test_what_became_of_a_decision(made: Response, outcome: str) -> None:
    """One word each, as metrics and log have it."""
    assert outcome_of(made) == outcome


def test_the_context_of_a_what_if_table_is_told(advisor: Advisor) -> None:
    """Evidence, rules and factor; no run time without a model."""
    body = asked(advisor, "what_if")
    assert set(body) == {"v", "decision", "edits", "message", "known", "run_time"}
    assert body["run_time"] is None
    assert body["known"]["rules"]["cpus_per_node"] == 8
    assert len(body["known"]["evidence"][Level.USER_NAME.value]) == 3
