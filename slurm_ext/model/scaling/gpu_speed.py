"""Speed of one GPU type against another, for a training that ran on one of them only.

Trainings that ran on both say how much faster each was; they differ by more than their noise,
because a training that is bound by its host gains nothing from a faster GPU. So the next one's gain
is as uncertain as the others' gains differ. Pure, standard library only.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import exp, log, sqrt

from slurm_ext.core.stats import NORMAL_90, fair_weights, student
from slurm_ext.model.throughput.inversion import LogNormal
from slurm_ext.model.throughput.pooling import OTHER_MODEL_SD

PRIOR_TRAININGS = 3.0  # that OTHER_MODEL_SD counts for, before trainings show how they differ
SAME_SPEED = LogNormal(0.0, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuRate:
    """Samples/s of one training on one GPU of a type, waiting for data taken away."""

    training: str  # of equal ones, the same work: script, batch, GPUs
    user: str
    gpu: str
    samples_per_s: float


def gain(rates: Iterable[GpuRate], here: str, there: str) -> LogNormal | None:
    """Rate on type `there` over that on `here`, for the next training; None: nobody ran on both.

    No user has more than a share of it.
    """
    from statistics import median  # 5 ms, which nobody waits for who asks for none

    by_pair: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for rate in rates:
        if rate.gpu in (here, there) and rate.samples_per_s > 0:
            by_pair[rate.user, rate.training][rate.gpu].append(log(rate.samples_per_s))
    both = [
        (user, median(by_gpu[there]) - median(by_gpu[here]))
        for (user, _), by_gpu in by_pair.items()
        if len(by_gpu) > 1
    ]
    return next_gain([value for _, value in both], [user for user, _ in both]) if both else None


def next_gain(
    logs: Sequence[float], users: Sequence[str], usual_sd: float = OTHER_MODEL_SD
) -> LogNormal:
    """Predict the next log gain from at least one, each of a user."""
    weights = fair_weights(users)
    total = sum(weights)
    mean = sum(w * v for w, v in zip(weights, logs, strict=True)) / total
    scatter = sum(w * (v - mean) ** 2 for w, v in zip(weights, logs, strict=True))
    freedom = PRIOR_TRAININGS + total - 1
    spread = sqrt((PRIOR_TRAININGS * usual_sd**2 + scatter) / freedom * (1 + 1 / total))
    return LogNormal(mean, spread * student(freedom, 0.9) / NORMAL_90)


def from_benchmark(here: float, there: float) -> LogNormal:
    """Gain by two results of one benchmark, which is not the training itself."""
    return LogNormal(log(there / here), OTHER_MODEL_SD)


def sped_up(faster: LogNormal, busy: float, network: float, link: float) -> tuple[float, float]:
    """Seconds of a step over those of before, and how much of `faster`'s log sd it feels.

    Of the step, `network` is waiting for others, and of the rest the GPU is at work for `busy`;
    `link`: seconds of sending over those of before.
    """
    kernels = (1 - network) * busy * exp(-faster.log_mean)
    step = (1 - network) * (1 - busy) + kernels + network * link
    return step, kernels / step
