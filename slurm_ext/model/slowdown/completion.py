"""The table of who slows whom, filled in from the pairs that were seen: a Gaussian process, numpy.

What completion of Gavel's kind (OSDI 2020: latent features of jobs, by least squares) answers, with
an uncertainty. Which pairs are alike: completion_kernel.py.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from slurm_ext.model.slowdown.completion_kernel import (
    CompletionKernel,
    JobTraits,
    KernelMatrices,
    job_similarity,
    kernel_matrices,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]
    Rows = NDArray[np.int64]

JITTER = 1e-6
MOST_KEPT = 50_000


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
    at: "Rows"
    weights: "Array"
    inverse: "Array"  # of the covariance of what was seen
    met: frozenset[tuple[int, int]] = field(default=frozenset())  # (job or partner, device)
    pairs: frozenset[tuple[int, ...]] = field(default=frozenset())
    kept: dict[tuple[str, str, str], tuple[float, float]] = field(
        default_factory=dict, compare=False, repr=False
    )  # answers: whoever steers asks the same ones every few seconds

    @property
    def kernel(self) -> CompletionKernel:
        """What the table was made with."""
        return self.matrices.kernel

    def has_job(self, job: str, device: str) -> bool:
        """Whether the job was seen beside anybody on that device."""
        return (self.jobs.get(job, -1), self.devices.get(device, -1)) in self.met

    def has_pair(self, job: str, partner: str, device: str) -> bool:
        """Whether this very pair was seen."""
        names = (self.jobs.get(job, -1), self.jobs.get(partner, -1), self.devices.get(device, -1))
        return names in self.pairs

    def predict(self, job: str, partner: str, device: str) -> tuple[float, float]:
        """The mean log speed and its standard deviation without noise.

        Both jobs have to be in the table, KeyError otherwise; the device may be a new one.
        """
        asked = (job, partner, device)
        if asked not in self.kept:
            means, sds = self.predict_all([(job, partner)], device)
            if len(self.kept) >= MOST_KEPT:
                self.kept.clear()
            self.kept[asked] = float(means[0]), float(sds[0])
        off, sd = self.kept[asked]
        return self.kernel.level + off, sd

    def predict_all(self, pairs: Sequence[tuple[str, str]], device: str) -> tuple["Array", "Array"]:
        """As `predict`, for many pairs, but how far each is from the kernel's level."""
        on = self.devices.get(device, len(self.devices))
        ask = np.array([(self.jobs[a], self.jobs[b], on) for a, b in pairs], dtype=np.int64)
        ask = ask.reshape(-1, 3).T
        across = self.matrices.covariance(ask, self.at)
        left = self.matrices.variance(ask) - ((across @ self.inverse) * across).sum(axis=1)
        return across @ self.weights, np.sqrt(np.maximum(left, JITTER))

    def leave_one_out(self) -> tuple["Array", "Array"]:
        """For each pair seen: its miss by all others, and that miss's believed sd, noise included.

        Closed form of leaving out (Rasmussen and Williams 2006, 5.4.2); both directions of a pair
        are left out together, for one tells much of the other.
        """
        misses, sds = np.zeros(len(self.weights)), np.zeros(len(self.weights))
        for rows in self._both_ways():
            block = np.linalg.inv(self.inverse[np.ix_(rows, rows)])
            misses[rows] = block @ self.weights[rows]
            sds[rows] = np.sqrt(np.diag(block))
        return misses, sds

    def _both_ways(self) -> list[list[int]]:
        found: dict[tuple[int, ...], list[int]] = {}
        for row, (job, partner, on) in enumerate(self.at.T):
            found.setdefault((*sorted((int(job), int(partner))), int(on)), []).append(row)
        return list(found.values())


def complete(
    seen: Sequence[PairSpeed],
    *,
    kernel: CompletionKernel,
    traits: Mapping[str, JobTraits] | None = None,
    jobs: Iterable[str] = (),
) -> Completion:
    """The table from the pairs in `seen`; `jobs`: names to be in it although nobody met them."""
    names = index_names([*(name for one in seen for name in (one.job, one.partner)), *jobs])
    devices = index_names(one.device for one in seen)
    over = kernel_matrices(kernel, job_similarity(list(names), traits or {}))
    at, noise, off = pair_columns(seen, names, devices, kernel.level)
    cov = over.covariance(at, at) + np.diag(noise + kernel.noise_var)
    inverse = np.asarray(np.linalg.inv(cov), dtype=np.float64)
    met = frozenset((int(one), int(on)) for a, b, on in at.T for one in (a, b))
    held = frozenset(tuple(int(one) for one in column) for column in at.T)
    return Completion(over, names, devices, at, inverse @ off, inverse, met, held)


def pair_columns(
    seen: Sequence[PairSpeed], names: Mapping[str, int], devices: Mapping[str, int], level: float
) -> tuple["Rows", "Array", "Array"]:
    """Where each pair stands, the variance of its measurement, and how far it is from `level`."""
    at = np.array(
        [(names[one.job], names[one.partner], devices[one.device]) for one in seen], dtype=np.int64
    )
    noise = np.array([one.log_sd**2 + JITTER for one in seen])
    return at.reshape(-1, 3).T, noise, np.array([one.log_speed - level for one in seen])


def index_names(names: Iterable[str]) -> dict[str, int]:
    """Each name once, with its place, in the order of coming."""
    return {name: at for at, name in enumerate(dict.fromkeys(names))}
