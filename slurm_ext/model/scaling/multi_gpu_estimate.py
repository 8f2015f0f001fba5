"""One training on many GPUs: the curve of one rank, under what all its ranks share.

    X(K, cores, workers) = K * curve(accelerator(K), data(cores, workers), storage / ranks a node)

Compute and communication over K GPUs (model.py, gpu_count_series.py) are a rank's accelerator
ceiling. A node's storage is divided among its ranks; cores and workers are each rank's own.
"""

from dataclasses import dataclass, replace
from math import exp, log
from typing import TYPE_CHECKING, Protocol

from slurm_ext.core.records import Interval, LoaderRun
from slurm_ext.core.stats import NORMAL_90
from slurm_ext.model.scaling.model import Shares, TrainingConfig
from slurm_ext.model.throughput.estimate import Estimate
from slurm_ext.model.throughput.evidence_checks import usable_runs
from slurm_ext.model.throughput.inversion import LogNormal, invert

if TYPE_CHECKING:
    from slurm_ext.model.scaling.model import ScalingMeasurement


class ScalingPredictor(Protocol):
    """Predictor of multi-GPU rates: a ScalingModel, or a GpuCountSeries."""

    def rate(self, config: TrainingConfig) -> tuple[float, Interval]:
        """Samples/s of all accelerators together, fed without waiting, and the interval."""

    def shares(self, config: TrainingConfig) -> Shares:
        """Parts of a step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankGroup:
    """Training processes of a job, and those of them on one node."""

    of_job: int
    on_node: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RankEstimate:
    """Estimate of one rank, and the network's share of its undisturbed step."""

    believed: Estimate
    network_share: float


def estimate_rank(
    believed: Estimate,
    scaling: ScalingPredictor,
    config: TrainingConfig,
    *,
    ranks: RankGroup,
    seen_on_node: float | None,
) -> RankEstimate:
    """Estimate one of `ranks` on `config`.

    `seen_on_node`: ranks on a node in the runs behind `believed`; None if unknown: the
    storage's rate is then kept. Raises InputError.
    """
    rate, interval = scaling.rate(config)
    log_sd = log(interval.high / interval.low) / (2 * NORMAL_90)
    return RankEstimate(
        believed=replace(
            believed,
            accel=LogNormal(log(rate / ranks.of_job), log_sd),
            storage_samples_per_s=_shared(believed.storage_samples_per_s, ranks, seen_on_node),
        ),
        network_share=scaling.shares(config).network,
    )


def _shared(ceiling: float | None, ranks: RankGroup, seen_on_node: float | None) -> float | None:
    if ceiling is None or seen_on_node is None:
        return ceiling
    return ceiling * seen_on_node / ranks.on_node


def gpus_and_nodes(run: LoaderRun) -> tuple[int, int] | None:
    """GPUs and nodes of the whole job; None if an older record does not say."""
    nodes = run.nodes or (1 if run.gpus <= 1 else None)
    return None if nodes is None else (run.gpus * nodes, nodes)


def measurement_of(run: LoaderRun) -> "ScalingMeasurement | None":
    """Config of a run and the rate of all its accelerators.

    None without GPUs or their nodes, and of a run that no curve can be estimated from.
    """
    from slurm_ext.model.scaling.model import ScalingMeasurement, TrainingConfig  # numpy

    place = gpus_and_nodes(run)
    if place is None or not place[0] or not usable_runs([run]):
        return None
    return ScalingMeasurement(
        config=TrainingConfig(gpus=place[0], nodes=place[1], local_batch=run.batch_size),
        samples_per_s=exp(invert(run).accel.log_mean) * (run.ranks or place[0]),
    )
