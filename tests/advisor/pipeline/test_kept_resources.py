"""Workers that the probe refuses to move stay, and no CPU that a job keeps busy is taken."""

from dataclasses import replace
from typing import Any

import pytest

from slurm_ext.advisor.limits.bounds import PartitionRules
from slurm_ext.advisor.pipeline.context import DecisionContext
from slurm_ext.advisor.pipeline.respond import Response, respond
from slurm_ext.advisor.service.recommendation_json import recommendation_json
from slurm_ext.core.findings.loader_refusal import LoaderRefusal
from slurm_ext.core.records import Edits, Level, LoaderRun, Submission
from slurm_ext.core.settings.document import Settings

WHY = "its seeds are pinned, so its workers stay (DLQUEUE_SEEDED=allow lifts this)"
LEFT = f"dlqueue: left as it is: {WHY}."
TOKEN = "d1-0123456789abcdef"
JOB = Submission(script="#!/bin/sh\npython3 train.py\n", user_name="ada", cpus_per_task=4)
PINNED = LoaderRun(  # one worker where four would do: its loader is the limit
    samples_per_s=48.0,
    workers=1,
    cores=4.0,
    batch_size=8.0,
    accel_samples_per_s=400.0,
    fetch_wall_s=0.02,
    fetch_cpu_s=0.018,
    main_cpu_s=0.0001,
    node_cores=16,
    user_workers=1,
    refused=LoaderRefusal.SEEDS,
    used_cores=1.1,
)
THREADS = replace(  # a training on 16 threads, whose loader costs nothing
    PINNED,
    samples_per_s=99.0,
    cores=16.0,
    accel_samples_per_s=100.0,
    fetch_wall_s=0.001,
    fetch_cpu_s=0.0005,
    refused=LoaderRefusal.NOTHING,
    used_cores=15.7,
)


def context(*runs: LoaderRun, **settings: Any) -> DecisionContext:
    """These runs of the very script, on nodes of 16 CPUs, where CPUs may change in any way."""
    chosen = {"policy__change_explicit": "any", **settings}
    values = {name.replace("__", "."): value for name, value in chosen.items()}
    acting = {"site.mode": "act", "policy.holdout_share": 0.0, **values}
    return DecisionContext(
        settings=Settings(values=acting),
        evidence={Level.SCRIPT_ARGS: list(runs)},
        rules=PartitionRules(cpus_per_node=16),
    )


def answer(*runs: LoaderRun, job: Submission = JOB, **settings: Any) -> Response:
    """The answer to the job after these runs, newest first."""
    return respond(job, context(*runs, **settings), TOKEN)


def edited(response: Response) -> Edits:
    """The answer's edits without its token."""
    return replace(response.edits, env={k: v for k, v in response.edits.env.items() if v != TOKEN})


def test_without_the_refusal_its_workers_move() -> None:
    """The twin of the next tests: what makes them leave the job alone is the refusal."""
    said = answer(replace(PINNED, refused=LoaderRefusal.MOVED))
    assert "workers 1 -> " in (said.message or "")
    assert "x faster" in (said.message or "")


@pytest.mark.parametrize("may_change", ["never", "grow"])
def test_a_refused_job_is_promised_nothing(may_change: str) -> None:
    """CPUs that were to serve its workers do not move either: the edits come as a whole."""
    said = answer(PINNED, PINNED, policy__change_explicit=may_change)
    assert (said.message, edited(said)) == (LEFT, Edits())


def test_cpus_that_its_own_workers_cannot_use_go_back() -> None:
    """Bounded by those that it kept busy: two of four, with the workers of its script."""
    said = answer(PINNED, PINNED)
    decision = said.recommendation.decision
    assert decision is not None
    assert decision.after == replace(decision.before, cpus_per_task=2)
    assert decision.reason == f"2 CPUs would stay idle; {WHY}"
    assert "cpus-per-task 4 -> 2: about as fast" in (said.message or "")
    assert "DLQUEUE_NUM_WORKERS" not in said.edits.env


def test_it_keeps_its_cpus_where_they_were_busy_or_nobody_counted() -> None:
    """Neither a job that used three cores and a half nor one without counters loses any."""
    for used in (3.5, None):
        said = answer(replace(PINNED, used_cores=used))
        assert (said.message, edited(said)) == (LEFT, Edits())


def test_the_variable_that_lifts_it_is_seen_at_once() -> None:
    """DLQUEUE_SEEDED=allow in the submission's environment: the same runs, and workers move."""
    allowing = replace(JOB, env={"DLQUEUE_SEEDED": "allow"})
    assert "workers 1 -> " in (answer(PINNED, job=allowing).message or "")
    keeps_state = replace(PINNED, refused=LoaderRefusal.STATE)
    said = answer(keeps_state, job=allowing, policy__change_explicit="never").message
    assert said == "dlqueue: left as it is: its dataset keeps state, so its workers stay."


def test_a_job_that_needs_nothing_is_not_bothered_with_it() -> None:
    """As fast as it gets with its own workers: the refusal is no reason for anything."""
    said = answer(replace(THREADS, refused=LoaderRefusal.SEEDS))
    assert "already at" in (said.message or "")
    assert "pinned" not in (said.message or "")


def test_busy_threads_of_a_cpu_training_are_kept() -> None:
    """Its curve knows the loader alone: 16 busy threads, and `15 CPUs would stay idle`."""
    job = replace(JOB, cpus_per_task=16)
    assert edited(answer(THREADS, THREADS, job=job)) == Edits()
    idle = answer(replace(THREADS, used_cores=5.2), job=job)
    assert idle.edits.cpus_per_task == 6


@pytest.mark.parametrize(
    ("memory", "rule", "cpus"),
    [
        ({}, {}, 4),
        ({"mem_per_tres": "gres:gpu:20480"}, {}, None),
        ({}, {"mem_by_gpu": True}, None),
        ({"mem_per_cpu_mib": 4096}, {"mem_by_gpu": True}, 4),
    ],
)
def test_a_job_with_memory_by_its_gpu_is_left_as_it_is(
    memory: dict[str, Any], rule: dict[str, Any], cpus: int | None
) -> None:
    """Memory by the CPU would shut out its steps, or take the place of what the GPU brings."""
    job = replace(JOB, cpus_per_task=8, tres_per_node="gres:gpu:1", **memory)
    rules = PartitionRules(cpus_per_node=16, def_mem_per_cpu_mib=4096, **rule)
    known = replace(context(*[replace(THREADS, cores=8.0, used_cores=3.5)] * 2), rules=rules)
    edits = edited(respond(job, known, TOKEN))
    assert (edits.cpus_per_task, edits.min_mem_per_cpu) == (cpus, cpus and 8192)
    assert (edits == Edits()) == (cpus is None)


def test_people_see_no_rate_of_other_workers() -> None:
    """Curve, maximum and knee in `predict` are those of the script's own workers."""
    known = context(PINNED, policy__change_explicit="never")
    said = recommendation_json(known, respond(JOB, known, TOKEN).recommendation)
    assert (said["why"], said["workers_stay"]) == (WHY, WHY)
    shapes = [*said["curve"], said["maximum"], said["knee"]]
    assert {point["num_workers"] for point in shapes} == {1}
