"""Goodput by its formula: gain, allowed batches, layouts, and the best of each size."""

from itertools import product

import numpy as np
import pytest

from slurm_ext.model.arrays import Array
from slurm_ext.model.scaling.goodput import (
    BatchLimits,
    GradientNoise,
    config_table,
    configs,
    iteration_times,
)

LIMITS = BatchLimits(initial=128, most=1024, local_least=32, local_most=256)


class Table:
    """Steps that take their number of samples a GPU, and half a second a node to synchronise."""

    def steps(self, gpus: Array, nodes: Array, most: Array, local: Array) -> tuple[Array, Array]:
        """Computing and synchronising."""
        assert (most <= gpus).all()
        return local / 100, np.where(gpus > 1, 0.5 * nodes, 0.0)


def test_the_gain_of_a_batch() -> None:
    """1 at M0; the batch's own scale without a signal, 1 without noise."""
    scale = np.array([1.0, 4.0])
    assert GradientNoise(square=1.0, variance=3.0).gain(scale).tolist() == [1.0, 4 / 1.75]
    assert GradientNoise(square=0.0, variance=3.0).gain(scale).tolist() == [1.0, 4.0]
    assert GradientNoise(square=1.0, variance=0.0).gain(scale).tolist() == [1.0, 1.0]


def test_layouts_take_as_few_nodes_as_they_need() -> None:
    """Nodes rounded up, GPUs of the fullest node at most those of one."""
    rows = [(1, 128, 1), (4, 64, 2), (5, 32, 1), (8, 32, 3)]
    table = config_table(rows, (1, 4, 5, 8), 4)
    assert table.size.tolist() == [0, 1, 2, 3]
    assert table.columns.tolist() == [
        [1, 1, 1, 128, 1],
        [4, 1, 4, 64, 2],
        [5, 2, 4, 32, 1],
        [8, 2, 4, 32, 3],
    ]
    assert config_table([], (1,), 4).columns.shape == (0, 5)


def test_only_allowed_batches_are_tried() -> None:
    """Between the limits, in all and of a GPU; a lone GPU accumulates above M0."""
    tried = configs(LIMITS, (1, 2, 8), 4)
    for size, (gpus, _, _, local, parts) in zip(tried.size, tried.columns.tolist(), strict=True):
        assert (1, 2, 8)[size] == gpus
        assert LIMITS.initial <= gpus * local * parts <= LIMITS.most
        assert LIMITS.local_least <= local <= LIMITS.local_most
        assert not (gpus == 1 and parts == 1 and local > LIMITS.initial)
    batches = {(row[0], row[3], row[4]) for row in tried.columns.tolist()}
    assert {(1, 128, 1), (1, 256, 4), (2, 64, 1), (2, 256, 2), (8, 32, 1)} <= batches
    assert {parts for gpus, local, parts in batches if gpus > 1 and local < 192} == {1}


def test_the_best_batch_of_each_size() -> None:
    """By brute force; goodput 0 for a size without any allowed batch."""
    noise = GradientNoise(square=1.0, variance=8.0)
    sizes = (1, 2, 8, 64)
    tried = configs(LIMITS, sizes, 4)
    best = iteration_times(Table(), LIMITS, tried, len(sizes)).best(noise)
    for place, gpus in enumerate(sizes):
        rows = [row for row in tried.columns.tolist() if row[0] == gpus]
        goodputs = {}
        for _, nodes, _, local, parts in rows:
            step_s = parts * local / 100 + (0.5 * nodes if gpus > 1 else 0.0)
            scale = gpus * local * parts / 128
            goodputs[local, parts - 1] = 9 / (8 / scale + 1) / step_s
        if not rows:
            assert best.goodput[place] == 0.0
            continue
        assert best.goodput[place] == pytest.approx(max(goodputs.values()))
        chosen = (float(best.local[place]), float(best.accumulated[place]))
        assert goodputs[chosen] == pytest.approx(max(goodputs.values()))
    assert best.goodput[3] == 0.0
    assert best.local.dtype == best.accumulated.dtype == np.int64


@pytest.mark.parametrize(("most", "local_most"), list(product((127, 128), (31, 32))))
def test_limits_that_allow_nothing(most: int, local_most: int) -> None:
    """Exactly one batch at the limits, none below them."""
    limits = BatchLimits(initial=128, most=most, local_least=32, local_most=max(32, local_most))
    tried = configs(limits, (4,), 4)
    assert len(tried.columns) == (1 if most == 128 else 0)
