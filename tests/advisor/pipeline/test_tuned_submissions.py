"""Jobs whose loaders may find their own workers: where the site acts, and the job agrees."""

from typing import Any

import pytest

from slurm_ext.advisor.pipeline.context import DecisionContext
from slurm_ext.advisor.pipeline.respond import Response, respond
from slurm_ext.core.records import Submission
from slurm_ext.core.settings.document import Settings

TOKEN = "d1-0123456789abcdef"
LINE = (
    "dlqueue: its data loaders find their own number of workers while it runs. "
    "Opt out: DLQUEUE_AUTOTUNE=0"
)


def response(word: str | None = None, **values: Any) -> Response:
    """To a job that nobody knows, which says `word`."""
    chosen = {"site.mode": "act", "policy.holdout_share": 0.0, "policy.autotune": True}
    settings = Settings(values={**chosen, **values})
    env = {} if word is None else {"DLQUEUE_AUTOTUNE": word}
    job = Submission(script="#!/bin/sh\n", num_tasks=1, env=env)
    return respond(job, DecisionContext(settings=settings), TOKEN)


def test_the_first_run_of_all_is_tuned_and_the_user_reads_it() -> None:
    """Nothing is known, nothing is changed but the one variable, and one line says so."""
    made = response()
    assert made.edits.env == {"DLQUEUE_AUTOTUNE": "1", "DLQUEUE_DECISION": TOKEN}
    assert (made.edits.cpus_per_task, made.message, made.holdout) == (None, LINE, False)


@pytest.mark.parametrize(
    "values", [{"policy.autotune": False}, {"site.mode": "advise"}, {"site.mode": "shadow"}]
)
def test_it_is_off_unless_the_site_acts(values: dict[str, Any]) -> None:
    """By default and in other modes the job is left as written, and nobody is told anything."""
    made = response(**values)
    assert (made.edits.env, made.message) == ({"DLQUEUE_DECISION": TOKEN}, None)


def test_the_control_group_is_left_as_written() -> None:
    """Half of forty tokens, say: no variable reaches those, and no line."""
    held = [
        respond_as(f"d1-{number:016x}", **{"policy.holdout_share": 0.5}) for number in range(40)
    ]
    assert 5 < sum(one.holdout for one in held) < 35
    for one in held:
        assert ("DLQUEUE_AUTOTUNE" in one.edits.env) is not one.holdout
        assert (one.message is None) is one.holdout


def respond_as(token: str, **values: Any) -> Response:
    """To the same job under another token."""
    chosen = {"site.mode": "act", "policy.autotune": True, **values}
    job = Submission(script="#!/bin/sh\n", num_tasks=1)
    return respond(job, DecisionContext(settings=Settings(values=chosen)), token)


@pytest.mark.parametrize("word", ["0", "off", " No "])
def test_the_users_word_wins_over_the_site(word: str) -> None:
    """DLQUEUE_AUTOTUNE=0 in the job's environment stays what it is."""
    assert response(word).edits.env == {"DLQUEUE_DECISION": TOKEN}


def test_who_opted_out_of_everything_gets_nothing() -> None:
    """Neither token nor tuning."""
    settings = Settings(values={"site.mode": "act", "policy.autotune": True})
    job = Submission(script="#!/bin/sh\n", num_tasks=1, comment="dlqueue=off")
    assert respond(job, DecisionContext(settings=settings), TOKEN).edits.env == {}


def test_a_job_from_inside_a_job_inherits_no_directive() -> None:
    """What was told to the outer job is emptied; what a user says without one is left to him."""
    told = {"DLQUEUE_NUM_WORKERS": "8", "DLQUEUE_NUM_THREADS": "1", "DLQUEUE_BUCKETS": "x"}
    outer = {"DLQUEUE_DECISION": "d1-00000000000000ff"}
    settings = Settings(values={"site.mode": "act", "policy.holdout_share": 0.0})
    for env, emptied in (({**told, **outer}, dict.fromkeys(told, "")), (told, {})):
        job = Submission(script="#!/bin/sh\n", num_tasks=1, env=env)
        made = respond(job, DecisionContext(settings=settings), TOKEN)
        assert made.edits.env == {**emptied, "DLQUEUE_DECISION": TOKEN}
