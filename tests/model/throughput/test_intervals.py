"""Intervals: nine in ten of simulated outcomes fall inside, and they shrink as runs arrive."""

from dataclasses import replace
from math import exp, log
from random import Random
from statistics import mean

import pytest

from slurm_ext.core.records import Level, LoaderRun, Shape
from slurm_ext.model.throughput.curve.costs import (
    FREE_S_PER_BYTE,
    RECEIVE_S,
    SEND_S_PER_BYTE,
    Curve,
)
from slurm_ext.model.throughput.curve.points import at
from slurm_ext.model.throughput.estimate import EFFICIENCY, STEPS_SPREAD, estimate
from slurm_ext.model.throughput.pooling import SPREAD
from slurm_ext.model.throughput.shape_predictor import predict
from slurm_ext.model.throughput.spread import MODEL_SD

TRAININGS = 300
KNOWN_AT = ((1, 4), (2, 4), (4, 2), (2, 2), (1, 2), (3, 4), (4, 4), (6, 4))  # workers, cores
WANTED_AT = ((4, 4), (8, 4), (1, 4), (3, 2))


def training(chance: Random) -> Curve:
    """A training of any balance between its loader and its accelerator."""
    wall = exp(chance.uniform(log(0.002), log(0.05)))
    return Curve(
        accel_samples_per_s=exp(chance.uniform(log(0.5), log(6.0))) / wall,
        fetch_wall_s=wall,
        fetch_cpu_s=wall * chance.uniform(0.2, 1.0),
        main_cpu_s=wall * 0.02,
        receive_s=RECEIVE_S * exp(chance.uniform(0.0, log(5.0))),
        batch_size=32,
        sample_bytes=150_000,
        efficiency=exp(chance.gauss(EFFICIENCY.log_mean, EFFICIENCY.log_sd)),
    )


def another_day(curve: Curve, chance: Random) -> Curve:
    """The same training in another run: its costs differ as repeats do."""
    sd = SPREAD[Level.SCRIPT_ARGS]
    return replace(
        curve,
        accel_samples_per_s=curve.accel_samples_per_s * exp(chance.gauss(0, STEPS_SPREAD)),
        fetch_wall_s=curve.fetch_wall_s * exp(chance.gauss(0, sd)),
        fetch_cpu_s=curve.fetch_cpu_s * exp(chance.gauss(0, sd)),
    )


def run_of(curve: Curve, workers: int, cores: int) -> LoaderRun:
    """What the probe would measure, the kernel telling how long workers waited for cores."""
    point = at(curve, workers, cores)
    alone_s = curve.fetch_wall_s + SEND_S_PER_BYTE * curve.sample_bytes
    wall_s = max(alone_s, workers / point.supply_samples_per_s if point.cpu > 0.5 else 0.0)
    return LoaderRun(
        samples_per_s=point.samples_per_s,
        workers=workers,
        cores=cores,
        batch_size=curve.batch_size,
        accel_samples_per_s=1
        / (1 / curve.accel_samples_per_s + FREE_S_PER_BYTE * curve.sample_bytes),
        fetch_wall_s=wall_s,
        fetch_cpu_s=curve.fetch_cpu_s + SEND_S_PER_BYTE * curve.sample_bytes,
        main_cpu_s=curve.main_cpu_s,
        emulated=True,
        sample_bytes=curve.sample_bytes,
        fetch_queued_s=wall_s - alone_s,
    )


def outcomes(runs: int) -> tuple[float, float]:
    """The share of outcomes inside the interval, and its mean log width, known from `runs` runs."""
    chance = Random(runs)
    inside, widths = [], []
    for _ in range(TRAININGS):
        curve = training(chance)
        seen = [run_of(another_day(curve, chance), *where) for where in KNOWN_AT[:runs]]
        known = estimate({Level.SCRIPT_ARGS: seen})
        assert known is not None
        for workers, cores in WANTED_AT:
            told = predict(known, Shape(cpus_per_task=cores, num_workers=workers)).interval
            rate = at(another_day(curve, chance), workers, cores).samples_per_s
            rate *= exp(chance.gauss(0, MODEL_SD))
            inside.append(told.low <= rate <= told.high)
            widths.append(log(told.high / told.low))
    return mean(inside), mean(widths)


@pytest.mark.parametrize("runs", [1, 2, 4, 8])
def test_nine_in_ten_outcomes_fall_inside(runs: int) -> None:
    """Neither boastful nor timid; of real errors, contrib/bench/curve is the judge."""
    inside, _ = outcomes(runs)
    assert 0.88 <= inside <= 0.975


def test_intervals_shrink_as_runs_arrive() -> None:
    """Each run narrows what is believed."""
    widths = [outcomes(runs)[1] for runs in (1, 2, 4, 8)]
    assert widths == sorted(widths, reverse=True)
    assert widths[-1] < 0.8 * widths[0]
