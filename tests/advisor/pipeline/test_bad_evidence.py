"""Bad input of the model: each is said in a clause, and nothing follows from it."""

from collections.abc import Sequence
from dataclasses import replace
from math import inf, nan
from typing import Any

import pytest

from slurm_ext.advisor.pipeline.context import DecisionContext
from slurm_ext.advisor.pipeline.decide import decide
from slurm_ext.core.records import Level, LoaderRun, Shape, Submission
from slurm_ext.core.settings.document import parse
from slurm_ext.core.unsupported_loader import CLAUSES, UnsupportedLoader
from slurm_ext.model.throughput.estimate import estimate
from slurm_ext.model.throughput.evidence_checks import inconsistency, why_no_estimate
from slurm_ext.model.throughput.shape_predictor import predict
from tests.builders import STARVED as RUN

SETTINGS = parse('[site]\nmode = "act"\n[policy]\nmin_runs = 1\n', "test")
JOB = Submission(name="train.sh", script="#!/bin/sh\npython train.py\n", cpus_per_task=4)

ABSURD: dict[str, dict[str, Any]] = {
    "it counted nothing": {"samples_per_s": 0.0},
    "it counted nothing ": {"fetch_wall_s": nan},
    "it counted nothing  ": {"accel_samples_per_s": inf},
    "it has less than nothing": {"fetch_cpu_s": -1.0},
    "it was faster than its own steps": {"samples_per_s": 700.0, "fetch_wall_s": 0.001},
    "it was faster than its own loader": {"samples_per_s": 300.0},
    "it computed more than its cores can": {"fetch_cpu_s": 0.2},
    "it had more cores than its node": {"cores": 64},
}


def reason(runs: Sequence[LoaderRun], level: Level = Level.SCRIPT_ARGS) -> str:
    """Why a job with such runs is left as it is; anything else fails."""
    thought = decide(JOB, DecisionContext(settings=SETTINGS, evidence={level: runs}))
    assert thought.decision is not None
    assert thought.decision.action == "leave"
    assert thought.decision.after == thought.decision.before
    assert thought.decision.predicted_after is None
    assert not thought.proposed.env
    return thought.why


def test_a_sound_run_is_believed() -> None:
    """Nothing speaks against the run that the others here are spoilt copies of."""
    assert inconsistency(RUN) is None
    assert estimate({Level.SCRIPT_ARGS: [RUN]}) is not None


@pytest.mark.parametrize("why", ABSURD)
def test_one_absurd_run_is_named_and_nothing_follows(why: str) -> None:
    """What no machine can have done is no curve; the reason says what is impossible."""
    absurd = replace(RUN, **ABSURD[why])
    assert reason([absurd]) == f"I do not believe the only run like this one: {why.strip()}"


@pytest.mark.parametrize("why", ABSURD)
def test_an_absurd_run_among_sound_ones_changes_nothing(why: str) -> None:
    """It is as if it had not been."""
    absurd = replace(RUN, **ABSURD[why])
    others = [replace(RUN, samples_per_s=48 + n / 9) for n in range(3)]
    assert estimate({Level.SCRIPT_ARGS: [absurd, *others]}) == estimate({Level.SCRIPT_ARGS: others})


def test_contradictory_runs_are_named_and_nothing_follows() -> None:
    """Costs that differ by orders of magnitude say nothing of the next run."""
    wild = [
        replace(RUN, fetch_wall_s=0.001 * 8**n, fetch_cpu_s=0.001, samples_per_s=0.1 / 8**n)
        for n in range(4)
    ]
    why = "I do not know: 4 runs like this one contradict each other: 0.0001953 to 0.1 samples/s"
    assert reason(wild) == why


@pytest.mark.parametrize("doubt", UnsupportedLoader)
def test_a_loader_without_a_curve_is_named_and_nothing_follows(doubt: UnsupportedLoader) -> None:
    """Iterable, two at once, another batch size half-way: whatever older runs say."""
    assert reason([replace(RUN, doubt=doubt), RUN, RUN]) == CLAUSES[doubt]


def test_a_loader_that_is_usual_again_is_believed_again() -> None:
    """The newest run counts: the script was changed back."""
    assert (
        estimate({Level.SCRIPT_ARGS: [RUN, replace(RUN, doubt=UnsupportedLoader.ITERABLE)]})
        is not None
    )


def test_a_doubt_of_a_newer_dlqueue_is_a_doubt() -> None:
    """A number that this version has no words for."""
    assert reason([replace(RUN, doubt=99)]) == "its loader is of a kind that I do not know"


def test_no_runs_and_too_few_are_said() -> None:
    """Nothing at all, strangers only, a single run of a similar job."""
    assert why_no_estimate({}) == "I do not know yet: no runs like this one"
    assert reason([RUN], Level.CLUSTER) == "I do not know yet: no runs like this one"
    assert (
        reason([RUN], Level.KIND) == "I do not know yet: one run of a similar job says too little"
    )


def test_a_node_that_lost_cores_is_predicted_as_it_is() -> None:
    """The newest run's machine counts: what it no longer has is not promised."""
    before = replace(RUN, cores=16, node_cores=64, workers=8, samples_per_s=330)
    now = replace(RUN, cores=2, node_cores=2)
    known = estimate({Level.SCRIPT_ARGS: [now, before]})
    assert known is not None
    wide = Shape(cpus_per_task=16, num_workers=16)
    assert predict(known, wide, node_cores=2).samples_per_s < 2 / RUN.fetch_cpu_s
    job = replace(JOB, cpus_per_task=16)
    evidence = {Level.SCRIPT_ARGS: [now, before]}
    thought = decide(job, DecisionContext(settings=SETTINGS, evidence=evidence))
    assert thought.decision is not None
    told = thought.decision.predicted_after
    assert told is not None
    assert told.samples_per_s < 2 / RUN.fetch_cpu_s
