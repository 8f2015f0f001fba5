"""Fits the kernel of the completed table: the likeliest, held near a first guess.

Marginal likelihood with its gradient (Rasmussen and Williams 2006, 5.9), logs of all variances and
lengths under a normal prior around the guess: with a hundred pairs most of them stay there.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from slurm_ext.core.errors import Extra
from slurm_ext.model.arrays import Array, Rows
from slurm_ext.model.slowdown.completion import PairSpeed, complete, index_names, pair_columns
from slurm_ext.model.slowdown.completion_kernel import (
    ROLES,
    CompletionKernel,
    JobSimilarity,
    JobTraits,
    KernelMatrices,
    Role,
    device_covariance,
    job_similarity,
    kernel_matrices,
    related,
)

SCALES = ("theirs_var", "both_var", "self_var", "noise_var")
OF_ROLE = ("family", "own", "vector", "size_length")
PRIOR_SD = 0.7  # of the log of a variance or length, and of the level
MOST_STEPS = 60
HOPELESS = 1e12
FOLDS, FOLD_STEPS = 4, 25
MOST_SEEN = 400  # the likelihood costs their cube, again and again


def likeliest(
    measured: Sequence[PairSpeed],
    guess: CompletionKernel,
    *,
    traits: Mapping[str, JobTraits] | None = None,
    prior_sd: float = PRIOR_SD,
    steps: int = MOST_STEPS,
) -> CompletionKernel:
    """The kernel of the pairs in `seen`, starting from and held near `guess`."""
    with Extra("train"):
        from scipy.optimize import minimize

    measured = measured[:MOST_SEEN]
    if not measured:
        return guess
    names = index_names(name for cell in measured for name in (cell.job, cell.partner))
    devices = index_names(cell.device for cell in measured)
    jobs = job_similarity(list(names), traits or {})
    guess = _with_lengths(guess, len(jobs.vector))
    at, noise, off = pair_columns(measured, names, devices, 0.0)
    start = _packed(guess)

    def cost(values: Array) -> tuple[float, Array]:
        kernel = _unpacked(values, guess)
        try:
            value, gradient = _cost(kernel, jobs, at, noise, off)
        except np.linalg.LinAlgError:  # out of range: let the search turn back
            return HOPELESS, np.zeros_like(values)
        apart = (values - start) / prior_sd
        return value + 0.5 * float(apart @ apart), gradient + apart / prior_sd

    bounds = [(cell - 8.0, cell + 8.0) for cell in start]
    best = minimize(
        cost, start, jac=True, method="L-BFGS-B", options={"maxiter": steps}, bounds=bounds
    )
    return _unpacked(np.asarray(best.x), guess)


def misses(
    measured: Sequence[PairSpeed],
    guess: CompletionKernel,
    *,
    traits: Mapping[str, JobTraits] | None = None,
    folds: int = FOLDS,
) -> Array:
    """Errors of log speeds over their predicted sd, each pair by a kernel that never saw it.

    Both directions of a pair are in one fold.
    """
    pairs = index_names("\0".join(sorted((cell.job, cell.partner))) for cell in measured)
    order = np.random.default_rng(0).permutation(len(pairs)) % folds
    fold = [order[pairs["\0".join(sorted((cell.job, cell.partner)))]] for cell in measured]
    standardized: list[float] = []
    for at in range(folds):
        rest = [cell for cell, its in zip(measured, fold, strict=True) if its != at]
        kernel = likeliest(rest, guess, traits=traits, steps=FOLD_STEPS)
        held_out = [cell for cell, its in zip(measured, fold, strict=True) if its == at]
        table = complete(
            rest,
            kernel=kernel,
            traits=traits,
            jobs=[x for s in held_out for x in (s.job, s.partner)],
        )
        for cell in held_out:
            mean, sd = table.predict(cell.job, cell.partner, cell.device)
            standardized.append(
                (cell.log_speed - mean) / np.sqrt(sd**2 + cell.log_sd**2 + kernel.noise_var)
            )
    return np.array(standardized)


def _cost(
    kernel: CompletionKernel, jobs: JobSimilarity, at: Rows, noise: Array, off: Array
) -> tuple[float, Array]:
    """Minus the log likelihood and its gradient, in the order of `_packed`."""
    over = kernel_matrices(kernel, jobs)
    cov = over.covariance(at, at) + np.diag(noise + kernel.noise_var)
    root = np.linalg.cholesky(cov)
    inverse = np.linalg.inv(cov)
    off = off - kernel.level
    weights = inverse @ off
    pull = 0.5 * (inverse - np.outer(weights, weights))  # of each entry of the covariance
    value = 0.5 * float(off @ weights) + float(np.log(np.diag(root)).sum())
    by_role, by_scale = _slopes(over, at, pull)
    gradient = [-float(weights.sum()), *by_scale]
    for name in ROLES:
        gradient += _of_role(getattr(kernel, name), jobs, by_role[name])
    return value, np.array(gradient)


def _slopes(over: KernelMatrices, at: Rows, pull: Array) -> tuple[dict[str, Array], list[float]]:
    """The cost's slope in each entry of each role's matrix, and in the log of each of SCALES."""
    kernel, (i, j, on) = over.kernel, at
    noise = float(np.trace(pull)) * kernel.noise_var
    pull = pull * device_covariance(kernel, on, on)
    jobs, partners, both = over.of_job[np.ix_(i, i)], over.of_partner[np.ix_(j, j)], over.of_both
    straight = both[np.ix_(i, i)], both[np.ix_(j, j)]
    crossed = both[np.ix_(i, j)], both[np.ix_(j, i)]
    size = len(both)
    half = 0.5 * kernel.both_var * pull
    slopes = {
        "sensitivity": _summed(pull, i, i, size),
        "pressure": _summed(pull, j, j, size),
        "of_job": _summed(kernel.theirs_var * pull * partners, i, i, size),
        "of_partner": _summed(kernel.theirs_var * pull * jobs, j, j, size),
        "of_both": _summed(half * straight[1], i, i, size)
        + _summed(half * straight[0], j, j, size)
        + _summed(half * crossed[1], i, j, size)
        + _summed(half * crossed[0], j, i, size),
    }
    alone = i == j
    scales = [
        kernel.theirs_var * float((pull * jobs * partners).sum()),
        float((half * (straight[0] * straight[1] + crossed[0] * crossed[1])).sum()),
        kernel.self_var * float(pull[np.ix_(alone, alone)].sum()),
        noise,
    ]
    return slopes, scales


def _summed(pull: Array, rows: NDArray[np.int64], across: NDArray[np.int64], size: int) -> Array:
    """Entries of pairs added up over the jobs that they are about."""
    left = np.zeros((size, len(pull)))
    left[rows, np.arange(len(pull))] = 1.0
    right = np.zeros((size, len(pull)))
    right[across, np.arange(len(pull))] = 1.0
    return left @ pull @ right.T


def _of_role(role: Role, jobs: JobSimilarity, slope: Array) -> list[float]:
    """Slopes in the logs of OF_ROLE and of the lengths."""
    family, vector = related(role, jobs)
    size = jobs.size / role.size_length**2
    gradients = [
        float((slope * family).sum()),
        role.own * float(np.trace(slope)),
        float((slope * vector).sum()),
        float((slope * family * size).sum()),
    ]
    pulled = slope * vector
    lengths = zip(jobs.vector, role.lengths, strict=True)
    return gradients + [float((pulled * apart).sum()) / length**2 for apart, length in lengths]


def _packed(kernel: CompletionKernel) -> Array:
    values = [kernel.level, *(np.log(getattr(kernel, name)) for name in SCALES)]
    for name in ROLES:
        role: Role = getattr(kernel, name)
        values += [np.log(getattr(role, part)) for part in OF_ROLE] + list(np.log(role.lengths))
    return np.array(values, dtype=np.float64)


def _unpacked(values: Array, like: CompletionKernel) -> CompletionKernel:
    logs = np.exp(values)
    fields: dict[str, object] = {"level": float(values[0])}
    fields |= {name: float(logs[1 + at]) for at, name in enumerate(SCALES)}
    at = 1 + len(SCALES)
    for name in ROLES:
        width = len(getattr(like, name).lengths)
        own = dict(zip(OF_ROLE, map(float, logs[at : at + len(OF_ROLE)]), strict=True))
        at += len(OF_ROLE)
        fields[name] = Role(**own, lengths=tuple(map(float, logs[at : at + width])))
        at += width
    return replace(like, **fields)  # type: ignore[arg-type]  # each name with its own type


def _with_lengths(kernel: CompletionKernel, width: int) -> CompletionKernel:
    """The kernel with a length for each number of the vectors."""
    filled = {
        name: replace(role, lengths=(*role.lengths, *(2.0,) * width)[:width])
        for name in ROLES
        if (role := getattr(kernel, name))
    }
    return replace(kernel, **filled)
