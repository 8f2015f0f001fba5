"""Division of GPUs among jobs: the exact best one, by dynamic programming. Pure.

    maximise  sum of utility(job, size)      one size a job, none of them taken apart, GPUs suffice
    P(0, k) = 0 ;  P(j, k) = max over sizes g <= k of  utility(j, g) + P(j-1, k-g)

as in Saxena et al., MASCOTS '20, whose objective was throughput; here a utility is
-weight / speedup, which is a job's remaining time: the sum of what is left to wait. Speedup is of
goodput (model/scaling/goodput.py), against the job's smallest size.

Admission: when jobs are many, only the shortest (by what they have left) get GPUs: at most one
job to `GPUS_A_JOB` GPUs. A change of size costs a restart, counted against the time that the new
size would last.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from slurm_ext.core.errors import InputError

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class DivisionTerms:
    """Settings of a division, of a site or a benchmark."""

    gpus_a_job: float = 2.0  # admission: so many GPUs there are for each job, 0: everybody
    restart_s: float = 30.0
    lasts_s: float = 300.0  # a size is thought to last so long, or to the job's end
    favour: float = 1.5  # exponent of a job's rank from the longest; 0: all weigh alike
    adds_up: bool = False  # instead the sum of speedups, as published: who scales gets all


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Utility:
    """Goodput of one job at each size."""

    name: str
    goodput: Floats  # at each of the sizes; 0: it cannot have that one
    held: int  # GPUs now, 0: it waits
    left: float  # work left, in the goodput's units; 0: nothing is known yet, so it comes first
    arrival_s: float = 0.0


def sizes_of(gpus: int, per_node: int, most: int) -> tuple[int, ...]:
    """Parts of a node in powers of two that divide it, then whole nodes.

    That always finds a place (Sia, SOSP '23). Raises InputError.
    """
    if gpus < 1 or per_node < 1 or most < 1:
        raise InputError("sizes", f"{gpus} GPUs, {per_node} a node, at most {most}: expected > 0")
    parts = [
        1 << bit
        for bit in range(per_node.bit_length())
        if per_node % (1 << bit) == 0 and 1 << bit < per_node
    ]
    whole = range(per_node, gpus + 1, per_node)
    return tuple(size for size in (*parts, *whole) if size <= min(gpus, most))


def divide(utility: Floats, sizes: Sequence[int], gpus: int) -> NDArray[np.int64]:
    """The column of each job's size in the best division; exact.

    `utility` is jobs x sizes, -inf where a job cannot have a size; a size may be 0. Raises
    InputError where no division gives every job something that it can have.
    """
    jobs, taken = len(utility), np.array(sizes, dtype=np.int64)
    largest = int(taken.max(initial=0))
    values = np.full((jobs + 1, largest + gpus + 1), -np.inf)  # fewer than no GPUs: never
    values[0, largest:] = 0.0
    for job in range(jobs):
        _extend(values[job], utility[job].tolist(), sizes, values[job + 1, largest:])
    if not np.isfinite(values[jobs, -1]):
        raise InputError("division", f"{gpus} GPUs are too few for {jobs} jobs")
    out = np.zeros(jobs, dtype=np.int64)
    left = largest + gpus
    for job in range(jobs - 1, -1, -1):
        out[job] = np.argmax(values[job, left - taken] + utility[job])
        left -= sizes[out[job]]
    return out


def _extend(value: Floats, utility: Sequence[float], sizes: Sequence[int], best: Floats) -> None:
    """The best with one job more, for every number of GPUs, into `best`."""
    largest = len(value) - len(best)
    room = np.empty_like(best)
    for size, gain in zip(sizes, utility, strict=True):
        start = largest - size
        np.add(value[start : start + len(best)], gain, out=room)
        np.maximum(best, room, out=best)


def admitted(
    jobs: Sequence[Utility], sizes: Sequence[int], gpus: int, terms: DivisionTerms
) -> list[Utility]:
    """Jobs that get GPUs at all: the shortest first, while each finds its smallest size."""
    most = len(jobs) if not terms.gpus_a_job else max(1, int(gpus / terms.gpus_a_job))
    kept: list[Utility] = []
    left = gpus
    for job in sorted(jobs, key=lambda job: (alone_s(job, sizes), job.arrival_s, job.name)):
        least = least_size(job, sizes)
        if least is not None and least <= left and len(kept) < most:
            kept.append(job)
            left -= least
    return kept


def least_size(job: Utility, sizes: Sequence[int]) -> int | None:
    """The smallest size that the job can have; None: it can have none."""
    able = np.flatnonzero(job.goodput > 0)
    return sizes[able[0]] if len(able) else None


def alone_s(job: Utility, sizes: Sequence[int]) -> float:
    """GPU-seconds of its work that is left, on its smallest size."""
    able = np.flatnonzero(job.goodput > 0)
    return job.left / job.goodput[able[0]] * sizes[able[0]] if len(able) else np.inf


def utilities(jobs: Sequence[Utility], sizes: Sequence[int], terms: DivisionTerms) -> Floats:
    """-weight/speedup of each job at each size, with the restart that a change costs."""
    if not jobs:
        return np.zeros((0, len(sizes)))
    goodput = np.stack([job.goodput for job in jobs])
    base = np.array([row[row > 0][0] for row in goodput])
    left_s = np.array([job.left for job in jobs])[:, None] / np.maximum(goodput, 1e-30)
    held = np.array([job.held for job in jobs])[:, None]
    lasts = np.clip(left_s, terms.restart_s, terms.lasts_s)
    changes = (held > 0) & (np.array(sizes)[None, :] != held)
    kept = np.where(changes, lasts / (lasts + terms.restart_s), 1.0)
    speedup = goodput * kept / base[:, None]
    weight = weights_of(jobs, sizes, terms)[:, None]
    with np.errstate(divide="ignore"):
        value = speedup if terms.adds_up else -weight / speedup
    return np.where(goodput > 0, value, -np.inf)


def weights_of(jobs: Sequence[Utility], sizes: Sequence[int], terms: DivisionTerms) -> Floats:
    """Shorter jobs weigh more, by rank.

    With speedup k^p, mean completion is least where job i from the longest has GPUs in proportion
    to i^(1/(1-p)) - (i-1)^(1/(1-p)) (heSRPT, Berg et al., 2020); sum of weight/speedup gives
    weight^(1/(1+p)). For p = 1/2 the two agree in weight (2i-1)^1.5.
    """
    left = np.array([alone_s(job, sizes) for job in jobs])
    rank = np.argsort(np.argsort(-left, kind="stable"), kind="stable") + 1
    weights: Floats = rank.astype(np.float64) ** terms.favour
    return weights


def allot(
    jobs: Sequence[Utility], sizes: Sequence[int], gpus: int, terms: DivisionTerms
) -> dict[str, int]:
    """GPUs for each job that gets some."""
    kept = admitted(jobs, sizes, gpus, terms)
    columns = divide(utilities(kept, sizes, terms), sizes, gpus)
    return {job.name: sizes[column] for job, column in zip(kept, columns, strict=True)}


def only(job: Utility, sizes: Sequence[int], least: int, most: int) -> Utility:
    """The same job within its owner's bounds."""
    inside = (np.array(sizes) >= least) & (np.array(sizes) <= most)
    return replace(job, goodput=np.where(inside, job.goodput, 0.0))
