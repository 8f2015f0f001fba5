"""Gain of one GPU type over another, and what a step takes on other nodes."""

from dataclasses import replace
from math import exp, log

import numpy as np
import pytest

from slurm_ext.core.records import Interval
from slurm_ext.model.scaling.gpu_speed import (
    SAME_SPEED,
    GpuRate,
    from_benchmark,
    gain,
    next_gain,
    sped_up,
)
from slurm_ext.model.scaling.model import ScalingMeasurement, Shares, TrainingConfig, fit
from slurm_ext.model.scaling.other_nodes import LINK_SD, OtherNodes, on_known_nodes
from slurm_ext.model.scaling.prior import default_prior
from slurm_ext.model.scaling.terms import TERMS
from slurm_ext.model.throughput.inversion import LogNormal
from slurm_ext.model.throughput.pooling import OTHER_MODEL_SD

QUICK_LINK = np.array([-3.0 if term in ("log_one_node", "log_several") else 0.0 for term in TERMS])
ONE = TrainingConfig(gpus=4, nodes=1, local_batch=32)
TWO = TrainingConfig(gpus=8, nodes=2, local_batch=32)


def rates(*trainings: tuple[str, float, float]) -> list[GpuRate]:
    """(user, rate on t4, rate on a100) of a training each."""
    return [
        GpuRate(training=f"p{at}", user=user, gpu=gpu, samples_per_s=rate)
        for at, (user, *both) in enumerate(trainings)
        for gpu, rate in zip(("t4", "a100"), both, strict=True)
    ]


def test_trainings_that_ran_on_both_say_the_gain() -> None:
    """Their mean; others, and other types, say nothing."""
    seen = rates(("ada", 100, 400), ("bob", 10, 40), ("eve", 1, 4))
    seen.append(GpuRate(training="alone", user="ada", gpu="a100", samples_per_s=9e9))
    found = gain(seen, "t4", "a100")
    assert found is not None
    assert exp(found.log_mean) == pytest.approx(4)
    assert gain(seen, "t4", "v100") is None


def test_agreement_narrows_and_difference_widens() -> None:
    """One training leaves more open than the spread itself; many that agree less than it."""
    users = [f"u{n}" for n in range(9)]
    one, many = next_gain([1.0], users[:1]), next_gain([1.0] * 9, users)
    apart = next_gain([0.0, 2.0] * 4 + [1.0], users)
    assert one.log_sd > OTHER_MODEL_SD > many.log_sd
    assert apart.log_sd > many.log_sd


def test_no_user_has_more_than_a_share_of_a_gain() -> None:
    """Fifty trainings of one user count as much as each of two others'."""
    seen = rates(*[("liar", 1, 100)] * 50, ("ada", 1, 2), ("bob", 1, 2))
    found = gain(seen, "t4", "a100")
    assert found is not None
    assert found.log_mean == pytest.approx((log(100) + 2 * log(2)) / 3)


def test_a_benchmark_is_as_uncertain_as_one_training_is_from_another() -> None:
    """Its ratio, with the spread of other trainings' gains."""
    assert from_benchmark(2.0, 6.0) == LogNormal(log(3), OTHER_MODEL_SD)


def test_a_faster_gpu_shortens_the_kernels_alone() -> None:
    """Half of the step is the host's: ten times the GPU saves less than half."""
    step, felt = sped_up(LogNormal(log(10), 0.1), busy=0.5, network=0.0, link=1.0)
    assert step == pytest.approx(0.55)
    assert felt == pytest.approx(0.05 / 0.55)
    assert sped_up(SAME_SPEED, busy=0.3, network=0.2, link=1.0)[0] == pytest.approx(1)


class Flat:
    """A scaling without loss whose steps over nodes wait for the network a fifth of the time."""

    def rate(self, config: TrainingConfig) -> tuple[float, Interval]:
        """A hundred samples/s a GPU, known exactly."""
        rate = 100.0 * config.gpus
        return rate, Interval(rate, rate)

    def shares(self, config: TrainingConfig) -> Shares:
        """Nothing inside of a node."""
        return (
            Shares(compute=1.0, network=0.0)
            if config.nodes == 1
            else Shares(compute=0.8, network=0.2)
        )


def test_another_link_is_felt_between_nodes_alone() -> None:
    """Four times the seconds for a byte: the fifth of a step becomes four fifths of the old one."""
    there = OtherNodes(here=Flat(), gain=SAME_SPEED, link=4.0)
    assert there.rate(ONE)[0] == pytest.approx(400)
    rate, interval = there.rate(TWO)
    assert rate == pytest.approx(800 / 1.6)
    assert there.shares(TWO).network == pytest.approx(0.8 / 1.6)
    assert log(interval.high / rate) == pytest.approx(1.645 * LINK_SD * 0.5)


def test_the_gains_doubt_is_in_the_interval() -> None:
    """As far as the step feels it."""
    rate, interval = OtherNodes(here=Flat(), gain=LogNormal(log(2), 0.3)).rate(ONE)
    assert rate == pytest.approx(800)
    assert log(interval.high / rate) == pytest.approx(1.645 * 0.3)


def test_a_network_that_others_told_is_that_of_the_nodes_asked_about() -> None:
    """One GPU's rate goes there by the gain; what more of them bring is their prior's own word."""
    one_gpu = TrainingConfig(gpus=1, nodes=1, local_batch=32)
    here = fit([ScalingMeasurement(config=one_gpu, samples_per_s=100)])
    slow = default_prior()
    terms = replace(slow.components[0], means=slow.components[0].means + QUICK_LINK)
    quick = replace(slow, components=(terms,))
    there = on_known_nodes(here, quick, LogNormal(log(4), 0.2), busy=1.0, batch=32)
    one, _ = there.rate(one_gpu)
    assert one == pytest.approx(400, rel=0.02)
    assert there.shares(TWO).network < here.shares(TWO).network / 2
    assert there.rate(TWO)[0] > 4 * here.rate(TWO)[0]
