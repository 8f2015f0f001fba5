"""What a job learns from its own runs: steps at other sizes, and what a larger batch is worth."""

from math import inf, nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_ext.core.errors import InputError
from slurm_ext.model.scaling.goodput import (
    BatchLimits,
    GradientNoise,
    config_table,
    configs,
    iteration_times,
)
from slurm_ext.model.scaling.goodput_speed import StepMeasurement, fit

LIMITS = BatchLimits(initial=128, most=4096, local_least=32, local_most=1024)
SIZES = (1, 2, 4, 8, 16)


def true_step(gpus: int, local: float) -> StepMeasurement:
    """A training whose laws are known: a fixed share of 0.3, links that saturate."""
    nodes, most = max(1, gpus // 4), min(gpus, 4)
    several = 0.04 * max(nodes - 1, 1) ** 0.3 * most**0.3
    sync = 0.0 if gpus == 1 else several if nodes > 1 else 0.01 * (gpus - 1) ** 0.5
    compute = 0.1 * (0.3 + 0.7 * local / 128)
    return StepMeasurement(
        gpus=gpus, nodes=nodes, most=most, local=local, compute_s=compute, sync_s=sync
    )


def asked(steps: list[StepMeasurement], gpus: int, local: float) -> float:
    """Seconds of a step as the model tells."""
    one = true_step(gpus, local)
    columns = [np.array([float(value)]) for value in (gpus, one.nodes, one.most, local)]
    compute, sync = fit(steps).steps(*columns)
    return float(compute[0] + sync[0])


def seconds(step: StepMeasurement) -> float:
    """Of the whole step."""
    return step.compute_s + step.sync_s


def test_what_was_measured_is_told_back() -> None:
    """Within the noise of a measurement."""
    steps = [true_step(gpus, local) for gpus in (1, 2, 4, 8) for local in (64, 128)]
    for step in steps:
        assert asked(steps, step.gpus, step.local) == pytest.approx(seconds(step), rel=0.05)


def test_one_measurement_answers_everywhere_and_more_come_closer() -> None:
    """After one: finite, rising with the batch. After four sizes, sixteen GPUs within a fifth."""
    first = [true_step(1, 128)]
    assert 0 < asked(first, 1, 32) < asked(first, 1, 128) < asked(first, 1, 1024) < inf
    steps = [true_step(gpus, local) for gpus in (1, 2, 4, 8) for local in (64, 256)]
    assert asked(steps, 16, 128) == pytest.approx(seconds(true_step(16, 128)), rel=0.2)


@pytest.mark.parametrize("compute_s", [0.0, -1.0, nan, inf])
def test_a_measurement_that_cannot_be_is_an_error(compute_s: float) -> None:
    """And so is none at all."""
    with pytest.raises(InputError, match="steps"):
        fit([StepMeasurement(gpus=1, nodes=1, most=1, local=32, compute_s=compute_s, sync_s=0.0)])
    with pytest.raises(InputError, match="at least one"):
        fit([])


@given(st.floats(1e-9, 1e9), st.floats(1e-9, 1e9), st.floats(1, 1e4))
def test_a_larger_batch_is_worth_more_but_never_more_than_its_size(
    square: float, variance: float, scale: float
) -> None:
    """Between 1 and the scale: AdaScale's bounds."""
    gain = float(GradientNoise(square=square, variance=variance).gain(np.array([scale]))[0])
    assert 1 - 1e-9 <= gain <= scale * (1 + 1e-9)


def test_noisy_gradients_make_large_batches_best() -> None:
    """Quiet gradients: the initial batch; noisy ones: as much as fits."""
    steps = [true_step(gpus, local) for gpus in (1, 4, 8) for local in (32, 128, 512)]
    told = iteration_times(fit(steps), LIMITS, configs(LIMITS, SIZES, 4), len(SIZES))
    quiet = told.best(GradientNoise(square=1.0, variance=0.01))
    noisy = told.best(GradientNoise(square=1.0, variance=1000.0))
    gpus = np.array(SIZES)
    sizes = [gpus * best.local * (best.accumulated + 1) for best in (quiet, noisy)]
    assert (sizes[0] <= 2 * np.maximum(LIMITS.initial, gpus * LIMITS.local_least)).all()
    assert (sizes[1] >= 2048).all()
    assert (noisy.goodput >= quiet.goodput).all()


@given(
    st.integers(1, 512),
    st.integers(1, 64),
    st.integers(1, 64),
    st.integers(1, 16),
    st.sampled_from([1, 2, 4, 8]),
)
def test_every_config_is_within_the_owners_limits(
    initial: int, times: int, least: int, grows: int, per_node: int
) -> None:
    """Batches in all and of a GPU; one GPU alone accumulates above the initial batch."""
    limits = BatchLimits(
        initial=initial, most=initial * times, local_least=least, local_most=least * grows
    )
    tried = configs(limits, SIZES, per_node)
    gpus, nodes, most, local, parts = tried.columns.T
    batch = gpus * local * parts
    assert ((batch >= limits.initial) & (batch <= limits.most)).all()
    assert ((local >= least) & (local <= limits.local_most)).all()
    assert (nodes * per_node >= gpus).all()
    assert (most <= per_node).all()
    assert ((gpus > 1) | (parts > 1) | (batch == initial)).all()


def test_a_size_that_no_batch_fits_has_no_goodput() -> None:
    """It is not an error: the division leaves it out."""
    rows = [(1, 128, 1), (2, 64, 1)]
    told = iteration_times(
        fit([true_step(1, 128)]), LIMITS, config_table(rows, SIZES, 4), len(SIZES)
    )
    best = told.best(GradientNoise(square=1.0, variance=1.0))
    assert (best.goodput > 0).tolist() == [True, True, False, False, False]
    assert best.local.tolist()[:2] == [128, 64]
