"""Causes of a wrong choice: one predicted factor at a time is replaced by the measured one.

    rate = one GPU here * gain of one GPU there * what more of them there bring

Each oracle knows one of the last two and predicts the other. The batch a GPU stays the measured
one, so nothing is predicted of it.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import exp, log

from contrib.bench.recommend.choosers import Learned, run_of
from contrib.bench.recommend.measured import Measured, Place
from contrib.bench.recommend.tables import Question
from slurm_ext.core.records import Interval, LoaderRun
from slurm_ext.core.stats import NORMAL_90
from slurm_ext.model.scaling.gpu_speed import SAME_SPEED
from slurm_ext.model.throughput.inversion import LogNormal
from slurm_ext.policy.node_shapes import RatedShape


def true_gain(asked: Question, known: Learned, truth: Measured) -> list[RatedShape]:
    """The measured gain of one GPU over the other; scaling as predicted."""

    def gained(here: str, there: str) -> LogNormal | None:
        both = _one(truth, asked, here), _one(truth, asked, there)
        return LogNormal(log(both[1] / both[0]), 0.0) if both[0] and both[1] else None

    def either(here: str, there: str) -> LogNormal | None:
        return gained(here, there) or known.gain(here, there)

    return replace(known, gain=either).shapes(asked, [_here(asked)])


def true_scaling(asked: Question, known: Learned, truth: Measured) -> list[RatedShape]:
    """The measured scaling on each kind of GPU; the gain as predicted."""
    here = _one(truth, asked, asked.here.gpu)
    return [_scaled(one, asked, known, truth, here) for one in known.shapes(asked, [_here(asked)])]


def _scaled(
    one: RatedShape, asked: Question, known: Learned, truth: Measured, here: float | None
) -> RatedShape:
    there = _one(truth, asked, one.node.gpu)
    same = one.node.gpu == asked.here.gpu
    gained = SAME_SPEED if same else known.gain(asked.here.gpu, one.node.gpu)
    if here is None or there is None or gained is None:
        return one
    rate = here * exp(gained.log_mean) * asked.truth[one.node.name, one.nodes] / there
    reach = exp(NORMAL_90 * gained.log_sd)
    return replace(one, samples_per_s=rate, interval=Interval(rate / reach, rate * reach))


def missed(
    asked: Sequence[Question], every: Sequence[Sequence[RatedShape]], *, same_gpu: bool
) -> list[float]:
    """Absolute log error of each predicted rate, on the GPUs that were measured or on others."""
    return [
        abs(log(one.samples_per_s / question.truth[one.node.name, one.nodes]))
        for question, shapes in zip(asked, every, strict=True)
        for one in shapes
        if (one.node.gpu == question.here.gpu) is same_gpu
    ]


def _one(truth: Measured, asked: Question, gpu: str) -> float | None:
    return truth.rate(Place(gpu, 1, 1), asked.batch)


def _here(asked: Question) -> LoaderRun:
    rate = asked.truth[f"{asked.here.each}x{asked.here.gpu}", 1]
    return run_of(asked.here, asked.batch, rate)
