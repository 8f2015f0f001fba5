"""JSON documents of the service: recommendation, edits and context."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import pytest

from slurm_ext.advisor.limits.bounds import PartitionRules
from slurm_ext.advisor.pipeline.context import DecisionContext
from slurm_ext.advisor.pipeline.decide import decide
from slurm_ext.advisor.service.context_json import context_from_json, context_json
from slurm_ext.advisor.service.from_history import context_from_history, runtime_from_history
from slurm_ext.advisor.service.recommendation_json import (
    ENOUGH_WORKERS,
    agreeing,
    edits_json,
    recommendation_json,
)
from slurm_ext.advisor.service.warm_up import JOB
from slurm_ext.core.advice.advice import Advice
from slurm_ext.core.records import Edits, Level, Mode, Shape, Submission
from slurm_ext.core.settings.document import Settings
from slurm_ext.history.store.store import open_history
from slurm_ext.model.throughput.estimate import Prior
from slurm_ext.model.throughput.inversion import LogNormal
from slurm_ext.slurm.records import JobAllowance
from tests.advisor.service.service_examples import PRIOR_NAMES, shares
from tests.builders import STARVED


def context(**values: Any) -> DecisionContext:
    """Acting on two runs, eight CPUs a node."""
    chosen = Settings(values={"site.mode": "act", "policy.holdout_share": 0.0})
    known = DecisionContext(
        settings=chosen,
        evidence={Level.SCRIPT_ARGS: [STARVED, STARVED]},
        rules=PartitionRules(cpus_per_node=8),
    )
    return replace(known, **values)


PLAIN_JOB = Submission(script="#!/bin/sh\n", num_tasks=1)


def test_a_recommendation_as_json_has_every_field() -> None:
    """Decision, predictions, edits, evidence, curve and limits."""
    known = context()
    made = decide(PLAIN_JOB, known)
    decision, estimated = made.decision, made.estimate
    assert decision is not None
    assert estimated is not None
    before, after = decision.predicted_before, decision.predicted_after
    assert before is not None
    assert after is not None
    body = recommendation_json(known, made, shares(Mode.ADVISE))
    curve, maximum, knee = (body.pop(name) for name in ("curve", "maximum", "knee"))

    def rate(prediction: Any) -> dict[str, Any]:
        return {
            "samples_per_s": prediction.samples_per_s,
            "interval": [prediction.interval.low, prediction.interval.high],
            "interval_level": 0.9,
            "bottleneck": prediction.bottleneck,
            "alone_samples_per_s": None,
            "elsewhere": prediction.elsewhere and ANY,
        }

    assert body == {
        "mode": "act",
        "eligible": True,
        "action": "change",
        "why": decision.reason,
        "before": {"cpus_per_task": 1, "num_workers": 1},
        "after": asdict(decision.after),
        "predicted_before": rate(before),
        "predicted_after": rate(after),
        "proposed": edits_json(made.proposed),
        "level": "same script and arguments",
        "runs": 2,
        "emulated": True,
        "of_others": False,
        "stopped": None,
        "workers_stay": None,
        "why_advice": None,
        "ranks": 1,
        "opt_out": "--comment=dlqueue=off",
        "sharing": shares(Mode.ADVISE).as_json(done=False),
        "buckets": None,
        "run_time": None,
        "bottleneck": body["bottleneck"],
        "next": body["next"],
        "advice": body["advice"],
    }
    assert body["bottleneck"] == "data"
    assert body["next"]
    workers = decision.after.num_workers
    assert [point["num_workers"] for point in curve] == list(
        range(min(33, max(4, 2 * max(workers, decision.after.cpus_per_task)) + 1))
    )
    assert {point["cpus_per_task"] for point in curve} == {decision.after.cpus_per_task}
    assert curve[workers] == {
        **asdict(decision.after),
        "samples_per_s": after.samples_per_s,
        "low": after.interval.low,
        "high": after.interval.high,
    }
    assert maximum["samples_per_s"] >= knee["samples_per_s"] >= 0.95 * maximum["samples_per_s"]
    assert set(maximum) == set(knee) == set(curve[0])


@pytest.mark.parametrize(("most", "points"), [(3, 4), (64, 33)])
def test_a_curve_is_no_longer_than_the_sites_workers(most: int, points: int) -> None:
    """Thirty-three points at most."""
    chosen = Settings(values={"site.mode": "act", "policy.max_workers": most})
    known = context(settings=chosen, rules=PartitionRules(cpus_per_node=64))
    job = replace(PLAIN_JOB, cpus_per_task=32)
    assert len(recommendation_json(known, decide(job, known))["curve"]) == points


def test_a_recommendation_of_nothing_is_told() -> None:
    """Opted out: no decision, so no numbers; unknown: no estimate."""
    known = context()
    out = replace(PLAIN_JOB, comment="dlqueue=off")
    assert recommendation_json(known, decide(out, known)) == {
        "mode": "act",
        "eligible": False,
        "action": "none",
        "why": "opted out",
        "before": None,
        "after": None,
        "predicted_before": None,
        "predicted_after": None,
        "proposed": {},
        "level": None,
        "runs": 0,
        "emulated": None,
        "of_others": False,
        "stopped": None,
        "workers_stay": None,
        "why_advice": None,
        "ranks": 1,
        "opt_out": "--comment=dlqueue=off",
        "sharing": None,
        "buckets": None,
        "run_time": None,
        "curve": [],
        "maximum": None,
        "knee": None,
        "bottleneck": None,
        "next": None,
        "advice": None,
    }
    unknown = context(evidence={})
    body = recommendation_json(unknown, decide(PLAIN_JOB, unknown))
    assert (body["eligible"], body["action"], body["curve"]) == (True, "leave", [])
    assert body["before"] == {"cpus_per_task": 1, "num_workers": 0}


def test_edits_as_json_leave_out_what_is_left_alone() -> None:
    """An empty text clears a field, and zero is a number."""
    edits = Edits(cpus_per_task=0, tres_bind="", env={})
    assert edits_json(edits) == {"cpus_per_task": 0, "tres_bind": ""}
    assert edits_json(Edits(env={"A": "1"})) == {"env": {"A": "1"}}


def test_a_context_survives_json() -> None:
    """With a prior and limits of accounts, or without any of them."""
    prior = Prior(**{n: LogNormal(i + 0.5, i + 0.25) for i, n in enumerate(PRIOR_NAMES)})
    rules = PartitionRules(cpus_per_node=4, allowance=JobAllowance(max_cpus=3))
    receives = (((4, None), LogNormal(-6.0, 0.5)), ((8, "A100"), LogNormal(-5.0, 0.4)))
    known = context(prior=prior, rules=rules, factor=1.5, receives=receives)
    body = json.loads(json.dumps(context_json(known, Submission())))
    assert set(body) == {"evidence", "prior", "rules", "factor", "factor_beside", "receives"}
    assert body["prior"] == {"accel": [0.5, 0.25], "wall": [1.5, 1.25], "cpu": [2.5, 2.25]}
    assert context_from_json(known.settings, body) == known
    bare = context(rules=None, evidence={})
    assert context_json(bare, Submission()) == {
        "evidence": {},
        "prior": None,
        "rules": None,
        "factor": 1.0,
        "factor_beside": 1.0,
        "receives": [],
    }
    assert context_from_json(bare.settings, context_json(bare, Submission())) == bare
    endless = replace(STARVED, samples_per_s=float("inf"), main_cpu_s=float("nan"))
    body = context_json(context(evidence={Level.OWN_KIND: [endless]}), Submission())
    (run,) = body["evidence"]["same user and kind of program"]
    assert (run["samples_per_s"], run["main_cpu_s"]) == (0.0, None)


def test_without_a_history_nothing_is_known(tmp_path: Path) -> None:
    """No file, an empty one, and a context of none."""
    chosen = Settings(values={"paths.state_dir": str(tmp_path)})
    assert context_from_history(chosen, JOB) == DecisionContext(settings=chosen)
    assert runtime_from_history(chosen, JOB) is None
    open_history(tmp_path / "history.db").close()
    known = context_from_history(chosen, JOB)
    assert not any(known.evidence.values())
    assert replace(known, evidence={}) == DecisionContext(settings=chosen)


def test_no_more_workers_are_advised_than_the_maximum_has() -> None:
    """Two lines of one answer never contradict each other."""
    more = Advice(word="data", action="more_workers", next="more", value=30, share=0.7, option="30")
    least, most = (Shape(cpus_per_task=2, num_workers=count) for count in (2, 5))
    fewer = agreeing(more, least, most)
    assert (fewer.value, fewer.option) == (5, "DataLoader(num_workers=5)")
    assert (agreeing(more, most, most).next, agreeing(more, most, most).share) == (
        ENOUGH_WORKERS,
        0,
    )
    cpus = replace(more, action="more_cpus")
    assert agreeing(cpus, most, most) == cpus
