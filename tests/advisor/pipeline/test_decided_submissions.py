"""Decisions of the pipeline: modes, control group and reasons, to the word."""

import sys
from dataclasses import replace
from typing import Any

import pytest

from slurm_ext.advisor.evidence.summary import EvidenceSummary
from slurm_ext.advisor.limits.bounds import PartitionRules
from slurm_ext.advisor.pipeline.context import DecisionContext
from slurm_ext.advisor.pipeline.decide import Recommendation, decide
from slurm_ext.advisor.pipeline.loader_choice import RAN_SLOWER, predictor
from slurm_ext.advisor.pipeline.message import with_sharing
from slurm_ext.advisor.pipeline.respond import apply_mode, held_out, respond
from slurm_ext.core.records import (
    Decision,
    Edits,
    Level,
    Mode,
    Shape,
    Submission,
)
from slurm_ext.core.settings.document import Settings
from slurm_ext.model.throughput.estimate import Estimate
from slurm_ext.policy import loader
from tests.advisor.pipeline.pipeline_examples import decision, sharing
from tests.builders import STARVED, estimate_of

TOKEN = "d1-0123456789abcdef"


BASE = {"site.mode": "act", "policy.holdout_share": 0.0}


def context(**values: Any) -> DecisionContext:
    """Acting on evidence of two runs."""
    chosen = {**BASE, **{name.replace("__", "."): value for name, value in values.items()}}
    rules = PartitionRules(cpus_per_node=8, def_mem_per_cpu_mib=1000)
    return DecisionContext(
        settings=Settings(values=chosen),
        evidence={Level.SCRIPT_ARGS: [STARVED, STARVED]},
        rules=rules,
    )


JOB = Submission(script="#!/bin/sh\n", num_tasks=1)


def test_the_policy_is_asked_with_the_sites_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every number of the settings and of the evidence arrives where it belongs."""
    calls: list[tuple[Any, ...]] = []

    def asked(before: Shape, predict: Any, limits: Any, *, rows: Any, **options: Any) -> Decision:
        assert rows == (predict.rows if "numpy" in sys.modules else None)
        calls.append((before, limits.max_workers, options, predict(before)))
        return replace(decision(), action="leave", before=before, after=before)

    monkeypatch.setattr(loader, "decide", asked)
    chosen = {
        "policy__target": 0.9,
        "policy__min_gain": 0.25,
        "policy__max_workers": 5,
        "policy__change_explicit": "grow",
    }
    known = replace(context(**chosen), factor=2.0)
    rss = estimate_of(STARVED).worker_rss_bytes
    made = decide(replace(JOB, cpus_per_task=2), known)
    before = Shape(cpus_per_task=2, num_workers=1)
    options = {
        "target": 0.9,
        "min_gain": 0.25,
        "may_change_cpus": "grow",
        "worker_rss_bytes": rss,
        "least_cpus": 2,
        "workers_stay": None,
        "worlds": (),
    }
    assert rss == 200 << 20
    assert calls[0][:3] == (before, 5, options)
    decide(JOB, known)
    assert calls[1][2]["may_change_cpus"] == "any"
    decide(JOB, replace(known, rules=None))
    assert calls[2][2]["may_change_cpus"] == "never"
    decide(JOB, replace(known, factor=1.0))
    wide, narrow = calls[1][3].interval, calls[3][3].interval
    assert wide.low < narrow.low < narrow.high < wide.high
    assert (made.mode, made.why, made.proposed) == (Mode.ACT, "it is so", Edits())
    assert made.message == "dlqueue: left as it is: it is so, emulated accelerator."
    assert made.limits is not None
    assert (made.limits.max_workers, made.limits.node_cores) == (5, 8)
    assert made.unmarked == {}


@pytest.mark.parametrize(
    ("fields", "values", "why"),
    [
        ({}, {"site__mode": "off"}, "the mode here is off"),
        ({"script": None}, {}, "has no script: salloc and srun are never edited"),
        ({"script": None}, {"site__mode": "off"}, "the mode here is off"),
    ],
)
def test_a_job_that_is_left_alone_has_a_reason_and_nothing_else(
    fields: dict[str, Any], values: dict[str, Any], why: str
) -> None:
    """No decision, so no token either."""
    known = context(**values)
    mode = Mode(values.get("site__mode", "act"))
    made = decide(replace(JOB, **fields), known)
    assert made == Recommendation(mode=mode, why=why)
    response = respond(replace(JOB, **fields), known, TOKEN)
    assert (response.edits, response.message, response.holdout) == (Edits(), None, False)


def test_too_few_runs_are_counted_in_the_reason() -> None:
    """The site's least number is enough."""
    assert decide(JOB, context(policy__min_runs=3)).why == (
        "I do not know yet: 2 runs like this one, 3 are wanted"
    )
    assert decide(JOB, context(policy__min_runs=2)).proposed.env
    spanning = replace(JOB, max_nodes=2)
    assert decide(spanning, context(policy__min_runs=3)).why == "it spans several nodes"
    assert decide(spanning, replace(context(), evidence={})).why == "it spans several nodes"
    assert decide(JOB, replace(context(), evidence={})).why == (
        "I do not know yet: no runs like this one"
    )


def given_back(monkeypatch: pytest.MonkeyPatch, cpus: int, workers: int, **fields: Any) -> Decision:
    """The decision where the policy gives four CPUs back down to `cpus`."""

    def asked(before: Shape, *_: Any, **_options: Any) -> Decision:
        after = Shape(cpus_per_task=cpus, num_workers=workers)
        return replace(decision(), before=before, after=after)

    monkeypatch.setattr(loader, "decide", asked)
    known = replace(context(), evidence={Level.SCRIPT_ARGS: [replace(STARVED, gpus=2)] * 2})
    made = decide(replace(JOB, cpus_per_task=4, **fields), known)
    assert made.decision is not None
    return made.decision


def test_cpus_are_given_back_down_to_the_floor(monkeypatch: pytest.MonkeyPatch) -> None:
    """A core for each GPU stays, with its own prediction; where all stay, so does the job."""
    made = given_back(monkeypatch, 1, 1, tres_per_node="gpu:2")
    assert made.after == Shape(cpus_per_task=2, num_workers=1)
    assert made.predicted_after is not None
    assert made.predicted_after.shape == made.after
    same = given_back(monkeypatch, 2, 1, tres_per_node="gpu:2")
    assert same.predicted_after is not None
    assert same.predicted_after.shape == Shape(cpus_per_task=2, num_workers=1)
    stays = given_back(monkeypatch, 1, 1, tres_per_node="gpu:4")
    assert (stays.action, stays.after) == ("leave", Shape(cpus_per_task=4, num_workers=1))
    assert stays.reason == "its GPUs or its memory need every CPU it asks for"
    workers = given_back(monkeypatch, 1, 3, tres_per_node="gpu:9")
    assert (workers.action, workers.after) == ("change", Shape(cpus_per_task=4, num_workers=3))
    grown = given_back(monkeypatch, 5, 3, tres_per_node="gpu:9")
    assert grown.after == Shape(cpus_per_task=5, num_workers=3)


def test_a_summary_that_is_at_hand_is_used() -> None:
    """The service keeps summaries; without one the evidence is read."""
    summary = EvidenceSummary(estimate=None, why_none="because", usual_workers=3, node_cores=None)
    made = decide(JOB, replace(context(), summary=summary))
    assert made.why == "because"
    assert made.decision is not None
    assert made.decision.before == Shape(cpus_per_task=1, num_workers=3)
    assert made.message is None


ESTIMATE: Estimate = estimate_of(STARVED)


PROPOSED = Edits(cpus_per_task=2, env={"DLQUEUE_NUM_WORKERS": "1"})


def recommended(**values: Any) -> Recommendation:
    """A change in act mode."""
    plain: dict[str, Any] = {
        "mode": Mode.ACT,
        "why": "it is so",
        "decision": decision(),
        "proposed": PROPOSED,
        "message": "the line",
        "estimate": ESTIMATE,
    }
    return Recommendation(**{**plain, **values})


def applied(
    recommendation: Recommendation, *arguments: Any, share: float = 0.0, **values: Any
) -> Any:
    """The response with settings that switch control off."""
    chosen = Settings(values={"policy.holdout_share": share, "control.mode": "off", **values})
    return apply_mode(recommendation, chosen, TOKEN, *arguments)


def test_only_act_lets_edits_through() -> None:
    """The token always arrives, and after the rest."""
    token = {"DLQUEUE_DECISION": TOKEN}
    for mode in (Mode.SHADOW, Mode.ADVISE):
        response = applied(recommended(mode=mode))
        assert response.edits == Edits(env=token)
        assert response.message == "the line"
    acted = applied(recommended(unmarked={"DLQUEUE_SHARED": ""}))
    assert acted.edits == Edits(
        cpus_per_task=2,
        env={"DLQUEUE_SHARED": "", "DLQUEUE_NUM_WORKERS": "1", **token},
    )
    assert (acted.holdout, acted.sharing, acted.recommendation.why) == (False, None, "it is so")


def test_the_control_group_is_drawn_of_jobs_that_something_is_known_of() -> None:
    """Without an estimate or a share there is nothing to compare."""
    held = applied(recommended(), share=1.0)
    assert (held.holdout, held.message) == (True, None)
    assert held.edits == Edits(env={"DLQUEUE_DECISION": TOKEN})
    unknown = applied(recommended(estimate=None), share=1.0)
    assert unknown.holdout is False
    assert unknown.edits.cpus_per_task == 2
    shared = applied(recommended(estimate=None), sharing(), share=1.0)
    assert (shared.holdout, shared.edits.gres, shared.message) == (True, None, None)
    apart = applied(recommended(estimate=None), sharing(share=False), share=1.0)
    assert (apart.holdout, apart.message) == (False, "the line")


def test_all_of_a_part_of_a_gpu_reaches_the_job_where_sharing_acts() -> None:
    """Fields and variables, beside the loader's own."""
    part = Edits(
        gres="mps:50",
        tres_per_job="",
        tres_per_task="",
        tres_bind="",
        prefer="f",
        env={"DLQUEUE_SHARED": "mps:50"},
    )
    shared = sharing(edits=part)
    response = applied(recommended(unmarked={"DLQUEUE_SHARED": ""}), shared)
    assert response.edits == replace(
        part,
        cpus_per_task=2,
        env={
            "DLQUEUE_NUM_WORKERS": "1",
            "DLQUEUE_SHARED": "mps:50",
            "DLQUEUE_DECISION": TOKEN,
        },
    )
    assert response.sharing is shared
    assert "It shares its GPU" not in (applied(recommended(), None).message or "")
    only = applied(recommended(), sharing(edits=part, mode=Mode.ADVISE))
    assert only.edits.gres is None
    assert only.message == with_sharing("the line", sharing(mode=Mode.ADVISE))


def test_a_fault_of_an_elastic_job_is_told_in_every_group() -> None:
    """The user wrote something that cannot be: the control group reads it, too."""
    fault = "dlqueue: x: the job keeps its size."
    assert applied(recommended(), None, "x", share=1.0).message == fault
    assert applied(recommended(), None, "x").message == f"the line {fault}"


def test_the_curve_reaches_the_job_where_control_works() -> None:
    """Nothing is said of jobs that nothing is known of."""
    assert "DLQUEUE_CURVE" not in applied(recommended()).edits.env
    on: dict[str, Any] = {"control.mode": "shadow"}
    assert applied(recommended(), **on).edits.env["DLQUEUE_CURVE"]
    assert "DLQUEUE_CURVE" not in applied(recommended(estimate=None), **on).edits.env


def test_the_control_group_by_hash() -> None:
    """The same tokens with every release: reports compare over months."""
    held = [n for n in range(40) if held_out(f"d1-{n:016x}", 0.3)]
    assert held == [14, 16, 19, 22, 24, 27, 28, 31, 32, 35, 37]
    assert not held_out(TOKEN, 0.0)
    assert held_out(TOKEN, 1.0)


def test_the_predictor_widens_by_the_factor_and_knows_the_machine() -> None:
    """Cores beyond those of the machine add nothing."""
    shape = Shape(cpus_per_task=64, num_workers=8)
    plain = predictor(ESTIMATE, context())(shape)
    wide = predictor(ESTIMATE, replace(context(), factor=2.0))(shape)
    assert plain.samples_per_s == wide.samples_per_s
    assert wide.interval.low < plain.interval.low
    four = predictor(ESTIMATE, context())(replace(shape, cpus_per_task=4))
    assert four.samples_per_s == pytest.approx(plain.samples_per_s)
    free = replace(context(), evidence={Level.SCRIPT: [replace(STARVED, node_cores=None)]})
    assert predictor(ESTIMATE, free)(shape).samples_per_s > plain.samples_per_s


@pytest.mark.parametrize(("rate", "action"), [(40.0, "leave"), (47.5, "change"), (90.0, "change")])
def test_a_change_that_ran_slower_is_not_made(
    monkeypatch: pytest.MonkeyPatch, rate: float, action: str
) -> None:
    """Whatever the curve says of it: its runs count where they had the very shape."""

    def asked(before: Shape, *_: Any, **_options: Any) -> Decision:
        after = Shape(cpus_per_task=4, num_workers=2)
        return replace(decision(), before=before, after=after)

    monkeypatch.setattr(loader, "decide", asked)
    quiet = replace(STARVED, fetch_queued_s=0.0, step_queued_s=0.0, main_queued_s=0.0)
    changed = replace(quiet, workers=2, user_workers=1, samples_per_s=rate)
    known = replace(context(), evidence={Level.SCRIPT_ARGS: [changed, quiet]})
    made = decide(replace(JOB, cpus_per_task=4), known).decision
    assert made is not None
    assert made.action == action
    assert (made.reason == RAN_SLOWER) is (action == "leave")
    assert (made.after == made.before) is (action == "leave")
    assert made.predicted_after is not None
    assert made.predicted_after.shape == made.after
