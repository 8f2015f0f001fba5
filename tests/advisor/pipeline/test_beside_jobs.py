"""A submission whose last runs waited for cores that other jobs used."""

from dataclasses import replace

from slurm_ext.advisor.pipeline.message import beside, message
from slurm_ext.core.records import (
    Decision,
    Elsewhere,
    Interval,
    Level,
    LoaderRun,
    Mode,
    Prediction,
    Shape,
)
from tests.advisor.pipeline.test_journey import ask, job

HERE = Prediction(
    shape=Shape(cpus_per_task=4, num_workers=2),
    samples_per_s=430.0,
    interval=Interval(300.0, 500.0),
    bottleneck="cores",
    level=Level.SCRIPT_ARGS,
    runs=2,
    elsewhere=Elsewhere(700.0, Interval(650.0, 760.0), crowded=False),
)
BOTH = "430 samples/s beside other jobs (300 to 500), 700 alone (650 to 760)"
# A training that its GPU limits, on eight cores of which it needs two; others had most of them.
LIGHT = LoaderRun(
    samples_per_s=395.0,
    workers=2,
    cores=8,
    batch_size=32,
    accel_samples_per_s=400.0,
    fetch_wall_s=0.002,
    fetch_cpu_s=0.0018,
    main_cpu_s=0.002,
    node_cores=8,
    gpus=1,
    fetch_queued_s=0.0,
    step_queued_s=0.0,
    main_queued_s=0.0,
)
STARVED = replace(
    LIGHT,
    samples_per_s=55.0,
    accel_samples_per_s=56.0,
    fetch_wall_s=0.016,
    fetch_queued_s=0.014,
    step_queued_s=0.015,
    main_queued_s=0.0155,
)


def test_the_line_tells_both_rates() -> None:
    """What holds beside others and alone, for a job that stays and for one that changes."""
    stays = Decision(
        action="leave", reason="it is so", before=HERE.shape, after=HERE.shape, predicted_after=HERE
    )
    assert message(stays, Mode.ACT, emulated=False) == (
        f"dlqueue: left as it is: it is so. It does {BOTH}."
    )
    more = replace(HERE, shape=replace(HERE.shape, num_workers=4))
    moved = replace(
        stays,
        action="change",
        after=more.shape,
        predicted_before=replace(HERE, samples_per_s=215.0),
        predicted_after=more,
    )
    said = message(moved, Mode.ADVISE, emulated=False) or ""
    told = "430 samples/s beside other jobs, 300 to 500; alone 700, 650 to 760"
    assert f"about 2.0x faster (215 -> {told})" in said
    assert beside(replace(HERE, elsewhere=None)) == ""


def test_a_job_that_met_nobody_is_told_what_others_would_cost() -> None:
    """Its own rate first, and each with an interval of its own."""
    own = replace(
        HERE,
        samples_per_s=700.0,
        interval=Interval(650.0, 760.0),
        elsewhere=Elsewhere(430.0, Interval(300.0, 700.0), crowded=True),
    )
    moved = Decision(
        action="change",
        reason="it waits",
        before=HERE.shape,
        after=replace(HERE.shape, num_workers=4),
        predicted_before=replace(own, samples_per_s=350.0),
        predicted_after=own,
    )
    said = message(moved, Mode.ACT, emulated=False) or ""
    told = "700 samples/s alone, 650 to 760; beside other jobs 430, 300 to 700"
    assert f"about 2.0x faster (350 -> {told})" in said
    assert beside(own) == ""


def test_a_starved_job_is_not_idle() -> None:
    """The same training gives cores back when it had them to itself, and none because it waited."""
    quiet, starved = (
        ask(job(cpus_per_task=8, tres_per_node="gres/gpu:1"), run) for run in (LIGHT, STARVED)
    )
    assert quiet.edits.cpus_per_task is None or quiet.edits.cpus_per_task < 8
    assert starved.edits.cpus_per_task is None
    assert "idle" not in (starved.message or "")
    assert "beside other jobs" in (starved.message or "")


def test_a_job_that_waits_for_itself_blames_nobody() -> None:
    """Nine processes on one core wait for each other: one rate, and not a word of other jobs."""
    crowded = replace(STARVED, workers=8, cores=1, gpus=0, emulated=True)
    told = ask(job(cpus_per_task=1), crowded)
    assert told.message
    assert "other jobs" not in told.message
    beside_others = ask(job(cpus_per_task=1), replace(crowded, workers=2))
    assert "beside other jobs" in (beside_others.message or "")
