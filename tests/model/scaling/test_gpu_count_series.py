"""Runs that are a series of GPU counts: recognised, and gone on with."""

from collections.abc import Sequence

import pytest

from slurm_ext.model.scaling.gpu_count_series import GpuCountSeries, gpu_count_series
from slurm_ext.model.scaling.model import ScalingMeasurement, TrainingConfig


def measured(gpus: int, local_batch: float, seconds: float, nodes: int = 1) -> ScalingMeasurement:
    """A step of so many seconds."""
    config = TrainingConfig(gpus=gpus, nodes=nodes, local_batch=local_batch)
    return ScalingMeasurement(config=config, samples_per_s=gpus * local_batch / seconds)


SPLIT = [measured(gpus, 64 / gpus, 0.05 + 0.4 / gpus) for gpus in (1, 2, 4)]
EACH = [measured(gpus, 64, 0.4 + 0.05 * (gpus - 1) / gpus) for gpus in (1, 2, 4)]
APART = [measured(gpus, 64, 0.4 + 0.4 * (gpus - 1) / gpus, nodes=gpus) for gpus in (1, 2, 4)]


def asked(points: Sequence[ScalingMeasurement], gpus: int, nodes: int = 1) -> GpuCountSeries | None:
    """What goes on to so many GPUs."""
    return gpu_count_series(points, TrainingConfig(gpus=gpus, nodes=nodes, local_batch=64))


def test_a_fixed_global_batch_goes_on_divided() -> None:
    """Halving what each GPU does, and never a step below what does not shrink."""
    found = asked(SPLIT, 8)
    assert found is not None
    rate, interval = found.rate(TrainingConfig(gpus=8, nodes=1, local_batch=8))
    assert rate == pytest.approx(64 / 0.1, rel=0.1)
    assert interval.low < rate < interval.high


def test_a_fixed_batch_a_gpu_goes_on_growing() -> None:
    """Each GPU keeps its batch, and gradients cost a little more."""
    found = asked(EACH, 8)
    assert found is not None
    here = TrainingConfig(gpus=8, nodes=1, local_batch=64)
    assert found.rate(here)[0] == pytest.approx(8 * 64 / 0.444, rel=0.1)
    assert found.shares(here).network < 0.3


def test_one_gpu_a_node_goes_on_so() -> None:
    """GPUs that are all on nodes of their own go on to more such nodes, and to nothing else."""
    found = asked(APART, 8, nodes=8)
    assert found is not None
    here = TrainingConfig(gpus=8, nodes=8, local_batch=64)
    assert found.rate(here)[0] == pytest.approx(8 * 64 / 0.75, rel=0.1)
    assert found.shares(here).network > 0.3
    assert asked(APART, 8, nodes=2) is None


@pytest.mark.parametrize(
    ("points", "gpus", "nodes"),
    [
        (SPLIT[:2], 8, 1),  # too few counts
        ([SPLIT[0]] * 3, 8, 1),  # one count, three times
        (SPLIT, 4, 1),  # not beyond
        (SPLIT, 8, 2),  # over nodes, which none of them was
        ([*EACH[:2], measured(4, 48, 0.4)], 8, 1),  # a batch that changed
    ],
    ids=["few", "repeated", "within", "nodes", "batch"],
)
def test_anything_else_is_no_series(
    points: list[ScalingMeasurement], gpus: int, nodes: int
) -> None:
    """Where batches, layouts or too few counts are in the way, the general scaling has to say."""
    assert asked(points, gpus, nodes) is None
