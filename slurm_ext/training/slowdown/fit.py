"""Fit model/slowdown/model.py: each table's likeliest kernel, and the width of each evidence.

A pair's own runs are the pair's; what is learned of jobs in general (kernels, counter models,
widths) is learned from rows of which nobody has more than a share.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import log, sqrt

import numpy as np

from slurm_ext.core.gpu_sharing import CorunMeasurement, SoloProfile, SpeedBasis
from slurm_ext.core.stats import NORMAL_90, conformal_rank, fair_newest
from slurm_ext.model.arrays import Array
from slurm_ext.model.slowdown.completion import PairSpeed
from slurm_ext.model.slowdown.completion_kernel import CompletionKernel
from slurm_ext.model.slowdown.model import (
    KERNELS,
    LOW_SDS,
    SlowdownModel,
    measured_pairs,
    slowdown_model,
    with_tables,
)
from slurm_ext.model.slowdown.pair_measurement import (
    MINUTE_LOG_SD,
    PairKey,
    all_pair_stats,
    is_usable,
    key,
    pair_stats,
)
from slurm_ext.model.throughput.calibration import FEWEST, LEVEL
from slurm_ext.training.slowdown.counter_models import fit_counter_models
from slurm_ext.training.slowdown.fit_completion import likeliest, misses
from slurm_ext.training.slowdown.job_embedding import traits

FEWEST_PAIRS = 30  # of one kind of device, for its kernel to be chosen from them
NARROWEST, WIDEST = 0.7, 4.0


def fitted(
    pairs: Sequence[CorunMeasurement], solos: Mapping[str, SoloProfile]
) -> tuple[SlowdownModel, dict[bool, CompletionKernel]]:
    """Fit a model to `pairs`, oldest first. Returns it and the kernels of its tables."""
    fair = [pairs[place] for place in fair_newest([pair.owner for pair in pairs])]
    job_traits = traits(solos)
    by_counters = fit_counter_models(fair, solos)
    model = slowdown_model(pairs, solos, traits=job_traits, by_counters=by_counters)
    pool = replace(model, met=all_pair_stats(fair))
    kernels, missed = dict(KERNELS), np.zeros(0)
    for on_cpu in model.tables:
        met = measured_pairs(pool, on_cpu)
        if len(met) >= FEWEST_PAIRS:
            kernels[on_cpu] = likeliest(met, KERNELS[on_cpu], traits=job_traits)
            missed = np.concatenate(
                [missed, misses(_some(met), KERNELS[on_cpu], traits=job_traits)]
            )
    widths = {
        SpeedBasis.COMPLETED: _width(missed),
        SpeedBasis.PAIR: _width(_repeats(fair)),
        SpeedBasis.PRIOR: _width(_in_general(fair)),
    }
    return with_tables(replace(model, widths=widths), kernels), kernels


def _some(met: Sequence[PairSpeed]) -> list[PairSpeed]:
    """Enough pairs to measure a width."""
    most = 300
    rows = np.random.default_rng(0).permutation(len(met))[:most]
    return [met[row] for row in sorted(rows)]


def _width(missed: Array) -> float:
    """Factor on intervals: split conformal over misses in standard deviations."""
    if len(missed) < FEWEST:
        return 1.0
    rank = conformal_rank(len(missed), LEVEL)
    factor = float(np.sort(np.abs(missed))[rank - 1]) / NORMAL_90
    return min(WIDEST, max(NARROWEST, factor))


def _repeats(pairs: Sequence[CorunMeasurement]) -> Array:
    """Misses of the last run of each repeated pair, predicted from its earlier runs."""
    runs: dict[PairKey, list[CorunMeasurement]] = {}
    for pair in filter(is_usable, pairs):
        runs.setdefault(key(pair.job, pair.partners, pair.device), []).append(pair)
    errors = []
    for repeats in runs.values():
        if len(repeats) < 2:
            continue
        before, last = pair_stats(repeats[:-1]), repeats[-1]
        noise = MINUTE_LOG_SD**2 * 60.0 / last.seconds
        sd = sqrt(before.log_sd**2 + before.spread**2 + noise)
        errors.append((log(last.speed) - before.log_speed) / sd)
    return np.array(errors)


def _in_general(pairs: Sequence[CorunMeasurement]) -> Array:
    nothing = SlowdownModel()
    errors = []
    for pair in filter(is_usable, pairs):
        if len(pair.partners) == 1:
            speed = nothing.speed(
                SoloProfile(key=pair.job), [SoloProfile(key=pair.partners[0])], pair.device
            )
            sd = log(speed.mean / speed.low) / LOW_SDS
            errors.append((log(pair.speed) - log(speed.mean)) / sd)
    return np.array(errors)
