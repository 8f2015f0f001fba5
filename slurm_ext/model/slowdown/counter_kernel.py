"""Similarity of two pairs of jobs by their counters: a covariance.

    log(top / speed - 1) of a beside b
        = level + load(a) - slice(a) + load(b) + slice(b) + both(a, b)

Time slicing without preemption (Gavel's V100 tables): a waits the longer, the more of the device
both use (load) and the longer b holds it each time (slice: long kernels); a short slice of its
own makes it wait more often. So one load and one slice a job make both directions of a pair. Each
is a Gaussian process over standardised counters: a straight line, bends of half, once and twice
`length` (no single one suits all counters), and the job's own. The lines are wide: they are
measured, not assumed to be flat, for far from all known jobs they are what is left (universal
kriging: Cressie, Statistics for Spatial Data, 1993, 3.4). An uncertain counter is averaged over
(the kernel's expectation under it), which lets unknown jobs fall back to jobs in general.
"""

from dataclasses import dataclass

import numpy as np

from slurm_ext.model.arrays import Array, Rows
from slurm_ext.model.slowdown.features import Positions

LEVEL_VAR = 1.0
BENDS = (0.5, 1.0, 2.0)  # lengths of `length` whose radial kernels are averaged


@dataclass(frozen=True, slots=True, kw_only=True)
class CounterKernel:
    """Standard deviations of the parts, in log(top / speed - 1); length in standardised columns."""

    length: float = 1.0
    load: float = 0.3
    slice: float = 0.4
    both: float = 0.35
    load_line: float = 0.5
    slice_line: float = 0.5
    own_load: float = 0.1
    own_slice: float = 0.2
    noise: float = 0.08
    speed_noise: float = 0.04  # of a measured speed itself


@dataclass(frozen=True, slots=True)
class KernelBlocks:
    """The parts between two lists of jobs (one x other)."""

    straight: Array  # load + slice: job with job, partner with partner
    crossed: Array  # load - slice: job with partner
    bend: Array
    both: float

    def between(self, one: tuple[Rows, Rows], other: tuple[Rows, Rows]) -> Array:
        """Covariance of (job, partner) rows of the first list with rows of the second."""
        (a, b), (c, d) = one, other
        same = self.straight[np.ix_(a, c)] + self.straight[np.ix_(b, d)]
        turned = self.crossed[np.ix_(a, d)] + self.crossed[np.ix_(b, c)]
        met = self.bend[np.ix_(a, c)] * self.bend[np.ix_(b, d)]
        return np.asarray(LEVEL_VAR + same + turned + self.both**2 * met)


def kernel_blocks(
    likeness: CounterKernel, one: Positions, other: Positions, own: Array
) -> KernelBlocks:
    """Evaluate the kernel; `own` (one x other) is 1 where both are runs of the same job."""
    bend, line = radial_kernel(likeness, one, other), one.at @ other.at.T / max(1, one.at.shape[1])
    load = likeness.load**2 * bend + likeness.load_line**2 * line + likeness.own_load**2 * own
    sliced = likeness.slice**2 * bend + likeness.slice_line**2 * line + likeness.own_slice**2 * own
    return KernelBlocks(load + sliced, load - sliced, bend, likeness.both)


def radial_kernel(likeness: CounterKernel, one: Positions, other: Positions) -> Array:
    """The expected radial kernel between uncertain places; 1 for two equal and certain ones."""
    apart = (one.at[:, None, :] - other.at[None, :, :]) ** 2
    doubt = one.variance[:, None, :] + other.variance[None, :, :]
    widths = [(bend * likeness.length) ** 2 * max(1, one.at.shape[1]) for bend in BENDS]
    logs = [-0.5 * apart / (w + doubt) - 0.5 * np.log1p(doubt / w) for w in widths]
    return np.asarray(np.mean([np.exp(log.sum(axis=2)) for log in logs], axis=0))


def prior_variances(likeness: CounterKernel, jobs: Positions, rows: tuple[Rows, Rows]) -> Array:
    """Prior variance of each (job, partner)."""
    line = (jobs.at**2 + jobs.variance).sum(axis=1) / max(1, jobs.at.shape[1])
    load = likeness.load**2 + likeness.load_line**2 * line + likeness.own_load**2
    sliced = likeness.slice**2 + likeness.slice_line**2 * line + likeness.own_slice**2
    variances = load + sliced
    a, b = rows
    self_met = np.where(a == b, 2.0 * (load - sliced)[a], 0.0)
    return np.asarray(LEVEL_VAR + variances[a] + variances[b] + self_met + likeness.both**2)
