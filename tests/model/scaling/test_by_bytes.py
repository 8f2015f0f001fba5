"""Scaling by the bytes of gradients: what others' bytes took is what this training's take."""

from math import exp, log

import pytest

from slurm_ext.model.scaling.by_bytes import ByteSeconds, GradientBytes, ScalingByBytes
from slurm_ext.model.scaling.gpu_speed import SAME_SPEED
from slurm_ext.model.scaling.model import ScalingMeasurement, TrainingConfig, fit
from slurm_ext.model.scaling.other_nodes import OtherNodes
from slurm_ext.model.throughput.inversion import LogNormal

ONE = TrainingConfig(gpus=1, nodes=1, local_batch=32)
NODE = TrainingConfig(gpus=4, nodes=1, local_batch=32)
TWO = TrainingConfig(gpus=8, nodes=2, local_batch=32)
SIZE = 1e8
RAN = (("t4", 4, 1, 1e-9), ("t4", 8, 2, 4e-9), ("a100", 4, 1, 1e-10))
OTHERS = [
    ByteSeconds(training=name, gpu=gpu, ranks=ranks, nodes=nodes, seconds=factor * seconds)
    for name, factor in (("a", 1.1), ("b", 1 / 1.1))
    for gpu, ranks, nodes, seconds in (
        ("t4", 4, 1, 1e-9),
        ("t4", 8, 2, 4e-9),
        ("a100", 4, 1, 1e-10),
    )
]


def same(kind: str, model: str) -> bool:
    """Types by their names."""
    return kind == model


def scaling(
    gpu: str = "t4", gain: LogNormal = SAME_SPEED, ran: TrainingConfig = ONE, rate: float = 160
) -> ScalingByBytes:
    """A training whose step is 0.2 s on one T4, and whose gradients have 100 MB."""
    point = ScalingMeasurement(config=ran, samples_per_s=rate)
    alone = fit([point])
    return ScalingByBytes(
        points=[point],
        on="t4",
        gpu=gpu,
        gain=gain,
        busy=1.0,
        gradients=GradientBytes(size=SIZE, others=OTHERS, is_gpu=same),
        alone=alone,
        otherwise=OtherNodes(here=alone, gain=gain),
    )


def test_a_step_is_its_computing_and_its_bytes() -> None:
    """0.2 s, and a nanosecond a byte on one node, four on two."""
    assert scaling().rate(NODE)[0] == pytest.approx(4 * 32 / 0.3)
    rate, interval = scaling().rate(TWO)
    assert rate == pytest.approx(8 * 32 / 0.6)
    assert interval.low < rate < interval.high
    assert scaling().shares(TWO).network == pytest.approx(0.4 / 0.6)


def test_a_gain_changes_the_computing_alone() -> None:
    """Four times the GPU: 0.05 s, and the link of the nodes that were asked about."""
    found = scaling("a100", LogNormal(log(4), 0.2))
    assert found.rate(NODE)[0] == pytest.approx(4 * 32 / 0.06)


def test_one_users_trainings_are_a_third_of_a_bytes_seconds() -> None:
    """However many scripts he has, and however far off: he outvotes nobody."""

    def others(user: str, scripts: int, seconds: float) -> list[ByteSeconds]:
        return [
            ByteSeconds(
                training=f"{user}{n}", user=user, gpu="t4", ranks=4, nodes=1, seconds=seconds
            )
            for n in range(scripts)
        ]

    honest = [one for user in ("ada", "bob", "eve") for one in others(user, 1, 1e-9)]
    found = GradientBytes(
        size=SIZE, others=[*honest, *others("mallory", 50, 1e-6)], is_gpu=same
    ).exposed("t4", NODE)
    assert found is not None
    assert found.log_mean == pytest.approx(log(0.1) + log(1000) / 4)


def test_a_measured_shape_keeps_its_rate() -> None:
    """And its bytes are taken out of its step before it is moved elsewhere."""
    found = scaling(ran=NODE, rate=4 * 32 / 0.3)
    assert found.rate(NODE)[0] == pytest.approx(4 * 32 / 0.3, rel=0.01)
    assert found.rate(TWO)[0] == pytest.approx(8 * 32 / 0.6)


def test_a_layout_that_nobody_ran_is_less_sure() -> None:
    """More nodes take longer, by the usual power, and widen the interval."""
    known = scaling().gradients
    far = TrainingConfig(gpus=32, nodes=8, local_batch=32)
    near, beyond = known.exposed("t4", TWO), known.exposed("t4", far)
    assert near is not None
    assert beyond is not None
    assert exp(near.log_mean) == pytest.approx(0.4)
    assert beyond.log_mean > near.log_mean
    assert beyond.log_sd > near.log_sd


def test_where_others_tell_nothing_the_scaling_without_bytes_answers() -> None:
    """Nobody ran on several nodes with A100s."""
    found = scaling("a100", LogNormal(log(4), 0.2))
    assert found.gradients.exposed("a100", TWO) is None
    assert found.rate(TWO) == found.otherwise.rate(TWO)
    assert found.shares(TWO) == found.otherwise.shares(TWO)


def test_a_smaller_batch_computes_for_less_long() -> None:
    """As one GPU's scaling with the batch has it; its bytes stay."""
    small = TrainingConfig(gpus=8, nodes=2, local_batch=16)
    network = scaling().shares(small).network
    assert network > scaling().shares(TWO).network
