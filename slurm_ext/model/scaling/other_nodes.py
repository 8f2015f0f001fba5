"""Scaling of a training on nodes of another type, from its scaling on those that it ran on.

    step elsewhere = host + kernels / gain of the GPU + exposed communication * link time ratio

The GPU's gain (gpu_speed.py) takes the kernels' part of a step alone, and the network's the part
that waits for other ranks. Where other trainings were measured on those nodes, one GPU's rate goes
there by the gain, and their family tells what comes with more GPUs: a network of theirs, not of the
nodes that the training ran on, times which no gain changes.
"""

from dataclasses import dataclass
from math import exp, hypot, log

from slurm_ext.core.records import Interval
from slurm_ext.core.stats import NORMAL_90
from slurm_ext.model.scaling.gpu_speed import sped_up
from slurm_ext.model.scaling.model import (
    ScalingMeasurement,
    ScalingModel,
    Shares,
    TrainingConfig,
    fit,
)
from slurm_ext.model.scaling.multi_gpu_estimate import ScalingPredictor
from slurm_ext.model.scaling.prior import ScalingPrior
from slurm_ext.model.throughput.inversion import LogNormal

LINK_SD = 0.3  # of the log of a link's share of communication: latency does not follow bandwidth


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherNodes:
    """A ScalingPredictor's answers, as they are on nodes with other GPUs and links."""

    here: ScalingPredictor
    gain: LogNormal  # of one GPU over those that were measured
    busy: float = 1.0  # share of the time that those were at work
    link: float = 1.0  # seconds of sending a byte between nodes over those of before

    def rate(self, config: TrainingConfig) -> tuple[float, Interval]:
        """Samples/s of all accelerators together, fed without waiting, and the 90 % interval."""
        rate, interval = self.here.rate(config)
        step, felt = self._step(config)
        half = log(interval.high / interval.low) / (2 * NORMAL_90)
        link_sd = LINK_SD * self.shares(config).network if self._link(config) != 1 else 0.0
        sd = hypot(half, felt * self.gain.log_sd, link_sd)
        predicted, reach = rate / step, exp(NORMAL_90 * sd)
        return predicted, Interval(predicted / reach, predicted * reach)

    def shares(self, config: TrainingConfig) -> Shares:
        """Parts of a step: computing, and waiting for the network."""
        step, _ = self._step(config)
        network = self.here.shares(config).network * self._link(config) / step
        return Shares(compute=1 - network, network=network)

    def _step(self, config: TrainingConfig) -> tuple[float, float]:
        network = self.here.shares(config).network
        return sped_up(self.gain, self.busy, network, self._link(config))

    def _link(self, config: TrainingConfig) -> float:
        """A node's own ranks do not use the link between nodes."""
        return self.link if config.nodes > 1 else 1.0


def on_known_nodes(
    here: ScalingModel, there: ScalingPrior, gain: LogNormal, *, busy: float, batch: float
) -> OtherNodes:
    """The same training on nodes whose prior is known, from its rate on one GPU here."""
    single = TrainingConfig(gpus=1, nodes=1, local_batch=batch)
    rate, interval = here.rate(single)
    step, felt = sped_up(gain, busy, 0.0, 1.0)
    half = log(interval.high / interval.low) / (2 * NORMAL_90)
    moved = fit([ScalingMeasurement(config=single, samples_per_s=rate / step)], there)
    return OtherNodes(here=moved, gain=LogNormal(0.0, hypot(half, felt * gain.log_sd)))
