"""Similarity of two pairs of jobs: the covariance of the table of pairwise slowdowns.

    log speed of a beside b = level + sensitivity(a) + pressure(b) + theirs(a, b) + both's{a, b}

Each part is a Gaussian process over jobs: jobs of one family (a model, a script) share it the more
the nearer they are in size (log2 of the batch), and so do jobs with like traits (numbers of a solo
run). `theirs` is a product over both jobs (Bonilla 2008, multi-task), `both's` the same in both
directions: jobs that fit together win on both sides.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from slurm_ext.model.arrays import Array, Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTraits:
    """Facts of a job that predict its slowdowns; `vector` is standardised, empty if unknown."""

    family: str | None = None  # None: like no other
    size: float = 0.0
    vector: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """Variances of one part over jobs, and the lengths over which it changes."""

    family: float = 0.02
    own: float = 0.01
    vector: float = 0.02
    size_length: float = 2.0
    lengths: tuple[float, ...] = ()


_UNIT = Role(family=0.5, own=0.3, vector=0.3)  # parts of a product; its own variance is apart


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionKernel:
    """Parameters of the covariance. Defaults: fitted to Gavel's published tables."""

    level: float = -0.5  # mean log speed before any measurement
    level_var: float = 0.05  # of a device's own level
    device_share: float = 0.3  # what another device shows as well (V100 and P100: 0.3)
    sensitivity: Role = field(default_factory=Role)
    pressure: Role = field(default_factory=Role)
    of_job: Role = _UNIT
    of_partner: Role = _UNIT
    of_both: Role = _UNIT
    theirs_var: float = 0.005
    both_var: float = 0.005
    self_var: float = 0.003  # of a job beside another of its own kind
    noise_var: float = 0.001


ROLES = ("sensitivity", "pressure", "of_job", "of_partner", "of_both")


@dataclass(frozen=True, slots=True)
class KernelMatrices:
    """A kernel over given jobs: one jobs x jobs matrix a role."""

    kernel: CompletionKernel
    sensitivity: Array
    pressure: Array
    of_job: Array
    of_partner: Array
    of_both: Array

    def covariance(self, one: Rows, other: Rows) -> Array:
        """Between two lists of (job, partner, device) columns."""
        kernel, (i, j, on), (k, m, by) = self.kernel, one, other
        theirs = self.of_job[np.ix_(i, k)] * self.of_partner[np.ix_(j, m)]
        both = self.of_both
        straight = both[np.ix_(i, k)] * both[np.ix_(j, m)]
        crossed = both[np.ix_(i, m)] * both[np.ix_(j, k)]
        total = (
            kernel.level_var
            + self.sensitivity[np.ix_(i, k)]
            + self.pressure[np.ix_(j, m)]
            + kernel.theirs_var * theirs
            + 0.5 * kernel.both_var * (straight + crossed)
            + kernel.self_var * np.outer(i == j, k == m)
        )
        return np.asarray(total * device_covariance(kernel, on, by))

    def variance(self, at: Rows) -> Array:
        """Prior variance of each (job, partner, device)."""
        kernel, (i, j, _) = self.kernel, at
        both = self.of_both
        return np.asarray(
            kernel.level_var
            + np.diag(self.sensitivity)[i]
            + np.diag(self.pressure)[j]
            + kernel.theirs_var * np.diag(self.of_job)[i] * np.diag(self.of_partner)[j]
            + 0.5 * kernel.both_var * (np.diag(both)[i] * np.diag(both)[j] + both[i, j] ** 2)
            + kernel.self_var * (i == j)
        )


@dataclass(frozen=True, slots=True)
class JobSimilarity:
    """Comparison of jobs: same family, squared distances in size and in each vector element."""

    same: Array
    size: Array
    vector: Array  # numbers x jobs x jobs
    known: Array  # 1 where both have a vector


def job_similarity(names: Sequence[str], traits: Mapping[str, JobTraits]) -> JobSimilarity:
    """Compare all jobs in `names`; one without traits is similar to no other."""
    every = [traits.get(name, JobTraits()) for name in names]
    family = np.array(
        [
            name if t.family is None else f"\0{t.family}"
            for name, t in zip(names, every, strict=True)
        ]
    )
    width = max((len(t.vector) for t in every), default=0)
    has = np.array([bool(width) and len(t.vector) == width for t in every], dtype=float)
    vectors = np.array([t.vector if len(t.vector) == width else (0.0,) * width for t in every])
    size = np.array([t.size for t in every])
    apart = (vectors[:, None, :] - vectors[None, :, :]) ** 2 if every else np.zeros((0, 0, 0))
    return JobSimilarity(
        (family[:, None] == family[None, :]).astype(float),
        (size[:, None] - size[None, :]) ** 2,
        np.moveaxis(apart, -1, 0),
        np.outer(has, has),
    )


def related(role: Role, jobs: JobSimilarity) -> tuple[Array, Array]:
    """Parts of one role's matrix: by families, and by vectors."""
    family = role.family * jobs.same * np.exp(-0.5 * jobs.size / role.size_length**2)
    if not len(jobs.vector):
        return family, np.zeros_like(family)
    lengths = np.array(role.lengths or (2.0,) * len(jobs.vector))
    apart = np.tensordot(lengths**-2.0, jobs.vector, axes=1)
    return family, role.vector * jobs.known * np.exp(-0.5 * apart)


def kernel_matrices(kernel: CompletionKernel, jobs: JobSimilarity) -> KernelMatrices:
    """Evaluate the kernel over these jobs."""
    matrices = []
    for name in ROLES:
        role: Role = getattr(kernel, name)
        family, vector = related(role, jobs)
        matrices.append(family + vector + role.own * np.eye(len(family)))
    return KernelMatrices(kernel, *matrices)


def device_covariance(kernel: CompletionKernel, on: Rows, by: Rows) -> Array:
    """1 between rows of one device, `device_share` between rows of two."""
    return np.where(on[:, None] == by[None, :], 1.0, kernel.device_share)
