"""Rates over other numbers of GPUs than the job's, from no run of the very job."""

from dataclasses import replace

from slurm_ext.advisor.pipeline.context import DecisionContext
from slurm_ext.advisor.what_if.speed import LayoutRate, LayoutSpeed
from slurm_ext.core.records import Level
from slurm_ext.core.settings.document import Settings
from slurm_ext.model.throughput.estimate import Prior
from slurm_ext.model.throughput.inversion import LogNormal
from tests.advisor.what_if.drafts import RUN
from tests.advisor.what_if.what_if_examples import layout


def test_own_runs_of_the_kind_say_what_more_gpus_cost() -> None:
    """A sweep whose jobs all have their own names ran on one GPU: four are less than four times."""
    known = DecisionContext(settings=Settings(), evidence={Level.OWN_KIND: [RUN] * 4})
    speed = LayoutSpeed(known, lambda _: None, 1)
    one = layout(gpus=1, cpus_per_task=32, num_workers=12)
    here, there = speed.at(one), speed.at(replace(one, gpus=4, tasks=4, ranks=4))
    assert isinstance(here, LayoutRate)
    assert isinstance(there, LayoutRate)
    assert there.samples_per_s < 4 * here.samples_per_s
    assert there.interval.high / there.interval.low > here.interval.high / here.interval.low


def test_own_runs_of_the_kind_come_before_those_of_others() -> None:
    """Another user's training over eight GPUs says nothing of mine over four."""
    others = replace(RUN, gpus=8, ranks=8, accel_samples_per_s=20.0, batch_size=64.0)
    four = layout(gpus=4, tasks=4, ranks=4, cpus_per_task=32, num_workers=12)
    evidence = {Level.OWN_KIND: [RUN] * 4}
    mine, every = (
        LayoutSpeed(DecisionContext(settings=Settings(), evidence=known), lambda _: None, 1)
        for known in (evidence, {**evidence, Level.KIND: [others] * 4})
    )
    assert mine.at(four) == every.at(four)


def test_a_script_alone_says_nothing_of_other_counts_of_gpus() -> None:
    """What is expected of it holds as it is written: no run tells what more GPUs would cost."""
    accel = LogNormal(4.6, 0.3)
    prior = Prior(accel=accel, wall=LogNormal(-2.5, 0.3), cpu=LogNormal(-2.6, 0.3))
    speed = LayoutSpeed(DecisionContext(settings=Settings(), prior=prior), lambda _: None, 1)
    assert isinstance(speed.at(layout(gpus=1)), LayoutRate)
    why = "no run like this one says how many GPUs it had"
    assert speed.at(layout(gpus=2, tasks=2, ranks=2)) == why
