"""Embeds jobs by their counters alone, in a few numbers: similarity beyond their names.

Standardised logs of what most jobs have measured, turned into their main directions (principal
components): in the table of pairs, jobs with similar loads then have similar slowdowns.
"""

from collections.abc import Mapping

import numpy as np

from slurm_ext.core.gpu_sharing import SoloProfile
from slurm_ext.model.arrays import Array
from slurm_ext.model.slowdown.completion_kernel import JobTraits

DIRECTIONS = 3
FEWEST_JOBS = 8  # below it directions are chance
MEASURED = 0.8  # of the jobs must have a counter
FLAT = 1e-6


def traits(solos: Mapping[str, SoloProfile]) -> dict[str, JobTraits]:
    """Traits of each job with counters, by key; empty if too few jobs have counters."""
    keys = [key for key, solo in solos.items() if solo.features]
    if len(keys) < FEWEST_JOBS:
        return {}
    table = _standard(_logs([solos[key].features for key in keys]))
    if not table.shape[1]:
        return {}
    left, sizes, _ = np.linalg.svd(table, full_matrices=False)
    along = left * sizes
    kept = along[:, : min(DIRECTIONS, int((sizes > FLAT).sum()))]
    scaled = kept / kept.std(axis=0)
    return {
        key: JobTraits(vector=tuple(float(value) for value in row))
        for key, row in zip(keys, scaled, strict=True)
    }


def _logs(rows: list[Mapping[str, float]]) -> Array:
    """Logs of the counters that most jobs have; NaN where one has it not."""
    names = sorted({name for row in rows for name in row})
    many = [name for name in names if sum(name in row for row in rows) >= MEASURED * len(rows)]
    values = [[max(0.0, row[name]) if name in row else np.nan for name in many] for row in rows]
    return np.asarray(np.log1p(np.array(values).reshape(len(rows), len(many))), dtype=np.float64)


def _standard(logs: Array) -> Array:
    """Counters that differ between jobs, in standard deviations; unknown ones are at the mean."""
    middle, spread = np.nanmean(logs, axis=0), np.nanstd(logs, axis=0)
    differs = spread > FLAT
    scaled = (logs[:, differs] - middle[differs]) / spread[differs]
    return np.asarray(np.nan_to_num(scaled), dtype=np.float64)
