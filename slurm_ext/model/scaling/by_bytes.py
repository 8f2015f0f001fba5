"""Scaling of a training whose gradients' size is known, by what a byte took other trainings.

    step = compute + exposed        exposed = bytes of gradients * seconds a byte took others there

Other trainings on the same GPUs and layout say the seconds of a byte; from their nearest layout it
goes to another one by the usual powers of ranks, nodes and GPUs a node (prior.py). Where nobody was
measured on such GPUs, on one node or on several, the scaling without bytes answers.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import exp, hypot, log

from slurm_ext.core.records import Interval
from slurm_ext.core.stats import NORMAL_90, fair_weights
from slurm_ext.model.scaling.gpu_speed import next_gain, sped_up
from slurm_ext.model.scaling.model import (
    ScalingMeasurement,
    ScalingModel,
    Shares,
    TrainingConfig,
)
from slurm_ext.model.scaling.multi_gpu_estimate import ScalingPredictor
from slurm_ext.model.scaling.prior import DEFAULT_TERMS
from slurm_ext.model.throughput.inversion import LogNormal

USUAL_SD = 0.3  # log, of a byte's seconds from training to training, before any shows it
DISTANCE_SD = 0.3  # for each unit of log distance to the nearest layout that was measured
COMPUTE_SD = 0.05  # of a step's own computing from layout to layout
LEAST_COMPUTING = 0.3  # of a measured step, whatever others' communication took


@dataclass(frozen=True, slots=True, kw_only=True)
class ByteSeconds:
    """Seconds of exposed communication of one run for each byte of its gradients."""

    training: str
    user: str = ""
    gpu: str
    ranks: int
    nodes: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientBytes:
    """The size of a training's gradients, and what a byte took others; `is_gpu` (type, model)."""

    size: float
    others: Sequence[ByteSeconds]
    is_gpu: Callable[[str, str], bool]

    def exposed(self, gpu: str, config: TrainingConfig) -> LogNormal | None:
        """Seconds of a step; None: others tell nothing. One GPU sends nothing: do not ask.

        No user has more than a share of it.
        """
        near: dict[tuple[str, str], tuple[float, float]] = {}
        for other in self.others:
            alike = other.ranks > 1 and (other.nodes > 1) == (config.nodes > 1)
            if alike and other.seconds > 0 and self.is_gpu(gpu, other.gpu):
                found, whose = _moved(other, config), (other.user, other.training)
                near[whose] = min(near.get(whose, found), found)
        if not near:
            return None
        logs, users = [moved for _, moved in near.values()], [user for user, _ in near]
        next_one, weights = next_gain(logs, users, usual_sd=USUAL_SD), fair_weights(users)
        distances = zip(weights, near.values(), strict=True)
        away = sum(weight * distance for weight, (distance, _) in distances) / sum(weights)
        return LogNormal(
            log(self.size) + next_one.log_mean, hypot(next_one.log_sd, DISTANCE_SD * away)
        )


def _moved(run: ByteSeconds, config: TrainingConfig) -> tuple[float, float]:
    """Log distance of two layouts, and log seconds of a byte on the second one."""
    nodes = log(config.nodes / run.nodes)
    ratio = log(config.gpus / config.nodes * run.nodes / run.ranks)
    if config.nodes == 1:
        power = DEFAULT_TERMS["rho"][0] * log((config.gpus - 1) / (run.ranks - 1))
    else:
        power = DEFAULT_TERMS["nu"][0] * log((config.nodes - 1) / (run.nodes - 1))
        power += DEFAULT_TERMS["eta"][0] * ratio
    return abs(nodes) + abs(ratio), log(run.seconds) + power


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingByBytes:
    """A ScalingPredictor by gradients' bytes, from `points`; `otherwise` without them."""

    points: Sequence[ScalingMeasurement]
    on: str  # the GPU that it was measured on
    gpu: str  # the GPU asked about
    gain: LogNormal  # of one GPU over that one
    busy: float  # share of the time that those were at work
    gradients: GradientBytes
    alone: ScalingModel  # that says what another batch takes on one GPU
    otherwise: ScalingPredictor

    def rate(self, config: TrainingConfig) -> tuple[float, Interval]:
        """Samples/s of all accelerators together, fed without waiting, and the 90 % interval."""
        found = None if self._is_measured(config) else self._step(config)
        if found is None:
            return self.otherwise.rate(config)
        (compute, compute_sd), (exposed, exposed_sd) = found
        step = compute + exposed
        sd = hypot(compute / step * compute_sd, exposed / step * exposed_sd)
        rate, reach = config.gpus * config.local_batch / step, exp(NORMAL_90 * sd)
        return rate, Interval(rate / reach, rate * reach)

    def shares(self, config: TrainingConfig) -> Shares:
        """Parts of a step: computing, and waiting for the network."""
        step = self._step(config)
        if step is None:
            return self.otherwise.shares(config)
        network = step[1][0] / (step[0][0] + step[1][0])
        return Shares(compute=1 - network, network=network)

    @property
    def measured(self) -> ScalingMeasurement:
        """The point with the fewest GPUs: others' communication is the least part of it."""
        return min(self.points, key=lambda point: (point.config.gpus, point.config.nodes))

    def _is_measured(self, config: TrainingConfig) -> bool:
        """True for a layout that ran on these GPUs: its own rate says more than its parts."""
        ran = {(point.config.gpus, point.config.nodes) for point in self.points}
        return (config.gpus, config.nodes) in ran and self.gradients.is_gpu(self.gpu, self.on)

    def _step(self, config: TrainingConfig) -> tuple[tuple[float, float], ...] | None:
        """Seconds of computing and of exposed communication, each with its log sd."""
        here, there = self._exposed(self.on, self.measured.config), self._exposed(self.gpu, config)
        if here is None or there is None:
            return None
        ran = self.measured.config
        step = ran.gpus * ran.local_batch / self.measured.samples_per_s
        compute = max(step - here[0], LEAST_COMPUTING * step)
        doubt = here[1] * min(1.0, here[0] / compute)
        gained, felt = sped_up(self.gain, self.busy, 0.0, 1.0)
        moved = compute * self._of_batch(config) * gained
        return (moved, hypot(COMPUTE_SD, doubt, felt * self.gain.log_sd)), there

    def _exposed(self, gpu: str, config: TrainingConfig) -> tuple[float, float] | None:
        if config.gpus == 1:
            return 0.0, 0.0
        exposed = self.gradients.exposed(gpu, config)
        return None if exposed is None else (exp(exposed.log_mean), exposed.log_sd)

    def _of_batch(self, config: TrainingConfig) -> float:
        """Seconds of one GPU's step at this batch over those at the measured one."""
        ran = self.measured.config.local_batch
        if config.local_batch == ran:
            return 1.0
        rates = [
            self.alone.rate(TrainingConfig(gpus=1, nodes=1, local_batch=batch))[0]
            for batch in (config.local_batch, ran)
        ]
        return config.local_batch / ran * rates[1] / rates[0]
