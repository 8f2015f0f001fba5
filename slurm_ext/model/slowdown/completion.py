"""Completes the table of pairwise slowdowns from the measured pairs: a Gaussian process, numpy.

It predicts what completion of Gavel's kind (OSDI 2020: latent features of jobs, by least squares)
predicts, with an uncertainty. completion_kernel.py defines the similarity of pairs.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from slurm_ext.model.arrays import Array, Rows
from slurm_ext.model.slowdown.completion_kernel import (
    CompletionKernel,
    JobTraits,
    KernelMatrices,
    job_similarity,
    kernel_matrices,
)

JITTER = 1e-6
MOST_CACHED = 50_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PairSpeed:
    """`job` beside `partner` on `device`: the log of its speed, and how far that may be off."""

    job: str
    partner: str
    device: str
    log_speed: float
    log_sd: float  # of this measurement; 0: the kernel's own noise alone


@dataclass(frozen=True, slots=True)
class Completion:
    """The filled table; `at` has the rows job, partner, device, and a column for each pair seen."""

    matrices: KernelMatrices
    jobs: Mapping[str, int]
    devices: Mapping[str, int]
    at: Rows
    weights: Array
    inverse: Array  # of the covariance of what was seen
    met: frozenset[tuple[int, int]] = field(default=frozenset())  # (job or partner, device)
    pairs: frozenset[tuple[int, ...]] = field(default=frozenset())
    cache: dict[tuple[str, str, str], tuple[float, float]] = field(
        default_factory=dict, compare=False, repr=False
    )  # predictions: the control loop needs the same ones every few seconds

    @property
    def kernel(self) -> CompletionKernel:
        """Kernel of the table."""
        return self.matrices.kernel

    def has_job(self, job: str, device: str) -> bool:
        """True if the job was measured beside any other on that device."""
        return (self.jobs.get(job, -1), self.devices.get(device, -1)) in self.met

    def has_pair(self, job: str, partner: str, device: str) -> bool:
        """True if this pair was measured."""
        names = (self.jobs.get(job, -1), self.jobs.get(partner, -1), self.devices.get(device, -1))
        return names in self.pairs

    def predict(self, job: str, partner: str, device: str) -> tuple[float, float]:
        """The mean log speed and its standard deviation without noise.

        Both jobs have to be in the table, KeyError otherwise; the device may be a new one.
        """
        pair = (job, partner, device)
        if pair not in self.cache:
            means, sds = self.predict_all([(job, partner)], device)
            if len(self.cache) >= MOST_CACHED:
                self.cache.clear()
            self.cache[pair] = float(means[0]), float(sds[0])
        off, sd = self.cache[pair]
        return self.kernel.level + off, sd

    def predict_all(self, pairs: Sequence[tuple[str, str]], device: str) -> tuple[Array, Array]:
        """Predict many pairs, as deviations from the kernel's level."""
        on = self.devices.get(device, len(self.devices))
        ask = np.array([(self.jobs[a], self.jobs[b], on) for a, b in pairs], dtype=np.int64)
        ask = ask.reshape(-1, 3).T
        across = self.matrices.covariance(ask, self.at)
        left = self.matrices.variance(ask) - ((across @ self.inverse) * across).sum(axis=1)
        return across @ self.weights, np.sqrt(np.maximum(left, JITTER))


def complete(
    measured: Sequence[PairSpeed],
    *,
    kernel: CompletionKernel,
    traits: Mapping[str, JobTraits] | None = None,
    jobs: Iterable[str] = (),
) -> Completion:
    """Fill the table from the pairs in `seen`; `jobs`: further names to have in it."""
    names = index_names([*(name for pair in measured for name in (pair.job, pair.partner)), *jobs])
    devices = index_names(pair.device for pair in measured)
    over = kernel_matrices(kernel, job_similarity(list(names), traits or {}))
    at, noise, off = pair_columns(measured, names, devices, kernel.level)
    cov = over.covariance(at, at) + np.diag(noise + kernel.noise_var)
    inverse = np.asarray(np.linalg.inv(cov), dtype=np.float64)
    met = frozenset((int(place), int(on)) for a, b, on in at.T for place in (a, b))
    pairs = frozenset(tuple(int(place) for place in column) for column in at.T)
    return Completion(over, names, devices, at, inverse @ off, inverse, met, pairs)


def pair_columns(
    measured: Sequence[PairSpeed],
    names: Mapping[str, int],
    devices: Mapping[str, int],
    level: float,
) -> tuple[Rows, Array, Array]:
    """Index of each pair, the variance of its measurement, and its deviation from `level`."""
    at = np.array(
        [(names[pair.job], names[pair.partner], devices[pair.device]) for pair in measured],
        dtype=np.int64,
    )
    noise = np.array([pair.log_sd**2 + JITTER for pair in measured])
    return at.reshape(-1, 3).T, noise, np.array([pair.log_speed - level for pair in measured])


def index_names(names: Iterable[str]) -> dict[str, int]:
    """Index of each name, in the order of its first appearance."""
    return {name: at for at, name in enumerate(dict.fromkeys(names))}
