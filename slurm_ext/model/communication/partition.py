"""The best partition of gradients into buckets, by dynamic programming. Pure."""

from collections.abc import Sequence
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from slurm_ext.model.communication.all_reduce import Gradient, Link

MOST_BUCKETS = 24  # of an uneven schedule: it has to fit into a variable of a job
_WORTH = 0.01  # of the exposed time: more buckets than that are not for less
_Values = npt.NDArray[np.float64]


def best_sizes(gradients: Sequence[Gradient], link: Link, most: int = MOST_BUCKETS) -> list[float]:
    """Bytes of each bucket, for the least exposed time with at most so many buckets.

    The end of the last all-reduce only grows with the end of the one before, so that the best
    partition consists of best partitions of its beginnings: exact. The fewest buckets that are
    as good as the best ones, within a hundredth, are taken.
    """
    ready = np.array([-gradient.before_end_s for gradient in gradients])
    ends = np.array([0.0, *accumulate(gradient.size_bytes for gradient in gradients)])
    done, cuts = _programme(ready, ends, link, min(most, len(gradients)))
    least = min(done)
    count = next(n for n, end_s in enumerate(done, 1) if end_s <= least + _WORTH * abs(least))
    return _sizes(ends, cuts[:count])


def _programme(
    ready: _Values, ends: _Values, link: Link, most: int
) -> tuple[list[float], list[npt.NDArray[np.int64]]]:
    """End of the last all-reduce by the number of buckets, and where each last bucket begins."""
    size = len(ready)
    ready = np.append(0.0, ready)
    before = np.full(size + 1, np.inf)  # of partitions of each beginning into one bucket less
    before[0] = ready.min()
    done, cuts = [], []
    sent = (ends[None, :] - ends[:, None]) / link.bytes_per_s + link.latency_s  # [from, to]
    sent[np.tril_indices(size + 1)] = np.inf  # a bucket has a gradient
    for _ in range(most):
        ends_s = np.maximum(before[:, None], ready[None, :]) + sent
        cut = ends_s.argmin(axis=0)
        before = ends_s[cut, np.arange(size + 1)]
        done.append(float(before[-1]))
        cuts.append(cut)
    return done, cuts


def _sizes(ends: _Values, cuts: Sequence[npt.NDArray[np.int64]]) -> list[float]:
    sizes, to = [], len(ends) - 1
    for cut in reversed(cuts):
        begin = int(cut[to])
        sizes.append(float(ends[to] - ends[begin]))
        to = begin
    return sizes[::-1]
