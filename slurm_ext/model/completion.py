"""The table of who slows whom, filled in from the pairs that were seen. Gaussian process, numpy.

    log speed of a beside b = level + sensitivity of a + pressure of b + what is theirs + noise

Sensitivity and pressure are shared by all pairs that a job is in, alike for jobs of one family, and
carried from device to device as far as they were seen to agree. Structure of the additive part:
latent job features of Gavel (OSDI 2020, its matrix completion), here with an uncertainty.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

JITTER = 1e-8


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """`job` beside `partner` on `device`: the log of its speed, and how far that may be off."""

    job: str
    partner: str
    device: str
    log_speed: float
    log_sd: float  # of this measurement; 0: the kernel's own noise alone
    expected: float | None = None  # log speed from elsewhere (counters); None: the kernel's level


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """How much of a log speed is whose (variances), and what is shared (shares of 0 to 1)."""

    level: float = -0.4  # mean log speed before anything was seen
    level_var: float = 0.1  # of a device's own level
    job_var: float = 0.06  # sensitivity: a row of the table
    partner_var: float = 0.06  # pressure: a column
    pair_var: float = 0.03  # what no sum of the two explains
    family_share: float = 0.8  # of a job's own, that its family has in common
    device_share: float = 0.3  # of a job's own, that another device shows as well
    noise_var: float = 0.002


@dataclass(frozen=True, slots=True)
class Completion:
    """The filled table. `told` gives the mean and standard deviation of a log speed."""

    kernel: Kernel
    jobs: Mapping[str, int]
    devices: Mapping[str, int]
    alike: "Array"  # jobs x jobs: 1 for the same one
    at: "NDArray[np.int64]"  # rows of job, partner, device; one column for each pair seen
    weights: "Array"
    root: "Array"  # lower triangle: root @ root.T is the covariance of what was seen

    def knows(self, job: str, device: str) -> bool:
        """Whether the job was seen beside anybody on that device."""
        row, on = self.jobs.get(job), self.devices.get(device)
        if row is None or on is None:
            return False
        here = self.at[2] == on
        return bool((here & ((self.at[0] == row) | (self.at[1] == row))).any())

    def holds(self, job: str, partner: str, device: str) -> bool:
        """Whether this very pair was seen."""
        asked = (self.jobs.get(job), self.jobs.get(partner), self.devices.get(device))
        if None in asked:
            return False
        return bool((self.at == np.array(asked, dtype=np.int64)[:, None]).all(axis=0).any())

    def told(
        self, job: str, partner: str, device: str, expected: float | None = None
    ) -> tuple[float, float]:
        """The mean log speed and its standard deviation without noise; `expected` as in Seen.

        Both jobs have to be known to the table, KeyError otherwise; the device may be a new one.
        """
        means, sds = self.all_told([(job, partner)], device)
        level = self.kernel.level
        return float(means[0]) + ((level if expected is None else expected) - level), float(sds[0])

    def all_told(self, pairs: Sequence[tuple[str, str]], device: str) -> tuple["Array", "Array"]:
        """As `told`, for many pairs of which nothing was expected."""
        on = self.devices.get(device, len(self.devices))
        ask = np.array([(self.jobs[a], self.jobs[b], on) for a, b in pairs], dtype=np.int64).T
        across = covariance(self.kernel, self.alike, ask.reshape(3, -1), self.at)
        mean = self.kernel.level + across @ self.weights
        solved = np.linalg.solve(self.root, across.T)
        left = self.kernel_var() - (solved**2).sum(axis=0)
        return mean, np.sqrt(np.maximum(left, JITTER))

    def kernel_var(self) -> float:
        """Variance of a pair of which nothing was seen."""
        one = self.kernel
        return one.level_var + one.job_var + one.partner_var + one.pair_var


def complete(
    seen: Sequence[Seen], *, kernel: Kernel, families: Mapping[str, str] | None = None
) -> Completion:
    """The table from the pairs in `seen`; jobs of one family (absent: its own) are alike."""
    jobs = _numbered(name for one in seen for name in (one.job, one.partner))
    devices = _numbered(one.device for one in seen)
    kin = families or {}
    alike = _alike(list(jobs), kin, kernel.family_share)
    at = np.array(
        [(jobs[one.job], jobs[one.partner], devices[one.device]) for one in seen], dtype=np.int64
    ).reshape(-1, 3)
    noise = np.array([kernel.noise_var + one.log_sd**2 for one in seen])
    cov = covariance(kernel, alike, at.T, at.T) + np.diag(noise + JITTER)
    root = np.asarray(np.linalg.cholesky(cov), dtype=np.float64)
    expected = [kernel.level if one.expected is None else one.expected for one in seen]
    off = np.array([one.log_speed for one in seen]) - np.array(expected)
    weights = np.asarray(np.linalg.solve(root.T, np.linalg.solve(root, off)), dtype=np.float64)
    return Completion(kernel, jobs, devices, alike, at.T, weights, root)


def covariance(
    kernel: Kernel, alike: "Array", one: "NDArray[np.int64]", other: "NDArray[np.int64]"
) -> "Array":
    """Between two lists of (job, partner, device) columns."""
    jobs = alike[np.ix_(one[0], other[0])]
    partners = alike[np.ix_(one[1], other[1])]
    here = np.where(one[2][:, None] == other[2][None, :], 1.0, kernel.device_share)
    own = kernel.job_var * jobs + kernel.partner_var * partners + kernel.pair_var * jobs * partners
    return np.asarray(here * (kernel.level_var + own))


def _alike(names: Sequence[str], kin: Mapping[str, str], share: float) -> "Array":
    families = np.array([kin.get(name, f"\0{name}") for name in names])
    related = (families[:, None] == families[None, :]).astype(float) if names else np.zeros((0, 0))
    return np.asarray(share * related + (1.0 - share) * np.eye(len(names)))


def _numbered(names: Iterable[str]) -> dict[str, int]:
    return {name: at for at, name in enumerate(dict.fromkeys(names))}
