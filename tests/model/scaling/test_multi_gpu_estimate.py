"""One training on many GPUs: its ranks' curves under what they share."""

from dataclasses import replace

import pytest

from slurm_ext.core.records import Level, LoaderRun, Shape
from slurm_ext.model.scaling.model import ScalingMeasurement, ScalingModel, TrainingConfig, fit
from slurm_ext.model.scaling.multi_gpu_estimate import RankEstimate, RankGroup, estimate_rank
from slurm_ext.model.throughput.estimate import Estimate, estimate
from slurm_ext.model.throughput.shape_predictor import predict

RUN = LoaderRun(
    samples_per_s=400,
    workers=8,
    cores=12,
    batch_size=64,
    accel_samples_per_s=420,
    fetch_wall_s=0.004,
    fetch_cpu_s=0.0035,
    main_cpu_s=0.0011,
    gpus=1,
)
ONE_GPU = TrainingConfig(gpus=1, nodes=1, local_batch=64)
FOUR_GPUS = TrainingConfig(gpus=4, nodes=1, local_batch=64)


def believed(storage: float | None = None) -> Estimate:
    """Of one rank, from one run."""
    found = estimate({Level.SCRIPT: [RUN]})
    assert found is not None
    return replace(found, storage_samples_per_s=storage)


def scaling(share_at_four: float) -> ScalingModel:
    """Measured where four GPUs do `share_at_four` of four times one GPU's work."""
    four = ScalingMeasurement(config=FOUR_GPUS, samples_per_s=4 * 420 * share_at_four)
    return fit([ScalingMeasurement(config=ONE_GPU, samples_per_s=420), four])


def joined(share_at_four: float, storage: float | None = None, on_node: int = 4) -> RankEstimate:
    """Four ranks, of which the runs were alone on their node."""
    return estimate_rank(
        believed(storage),
        scaling(share_at_four),
        FOUR_GPUS,
        ranks=RankGroup(of_job=4, on_node=on_node),
        seen_on_node=1,
    )


def rate(one: RankEstimate, workers: int = 8) -> float:
    """Samples/s of the whole job on twelve cores a rank."""
    shape = Shape(cpus_per_task=12, num_workers=workers)
    return 4 * predict(one.believed, shape, node_cores=48).samples_per_s


def test_four_ranks_do_what_the_network_leaves_them() -> None:
    """Where data is plenty, the whole job does what was measured of four GPUs."""
    free, held = rate(joined(0.95)), rate(joined(0.4))
    assert free == pytest.approx(4 * 420 * 0.95, rel=0.1)
    assert held == pytest.approx(4 * 420 * 0.4, rel=0.1)


def test_ranks_without_workers_wait_for_data_however_fast_the_network() -> None:
    """One worker a rank is the ceiling, whether gradients cost much or little."""
    assert rate(joined(0.95), workers=1) == pytest.approx(rate(joined(0.8), workers=1), rel=0.02)


def test_a_nodes_storage_is_divided_among_its_ranks() -> None:
    """Four ranks on a node read what one alone did; on four nodes each has a node's storage."""
    together = rate(joined(0.95, storage=200.0))
    apart = rate(joined(0.95, storage=200.0, on_node=1))
    assert together == pytest.approx(200, rel=0.1)
    assert apart == pytest.approx(800, rel=0.1)


def test_storage_stays_where_nobody_knows_who_shared_it() -> None:
    """A record that does not say how many ranks a node had changes no ceiling."""
    ranks = RankGroup(of_job=4, on_node=4)
    one = estimate_rank(believed(200.0), scaling(0.95), FOUR_GPUS, ranks=ranks, seen_on_node=None)
    assert one.believed.storage_samples_per_s == 200.0


def test_the_networks_share_is_told() -> None:
    """Most of a step that gradients hold up is the network's; little of one that they do not."""
    assert joined(0.3).network_share > 0.5
    assert joined(0.97).network_share < 0.2
