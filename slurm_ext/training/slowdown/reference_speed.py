"""Corrects a job's recorded solo speed by its runs beside the gentlest partners.

A solo speed is one measurement; where a job is faster beside light jobs than "alone", the recorded
solo was slow (Lucid's table: 21 % of speeds above 1, one model by 15 %). Left in, that error would
be learned as an effect of the job's counters.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from slurm_ext.core.gpu_sharing import SoloProfile

GENTLE = 0.1  # in speed: partners this much harsher than the gentlest count 1/e
PRIOR_ROWS = 2.0  # weight of "the solo speed was right"
FEWEST = 3  # families beside which a job was seen
PULL = 1.0  # rows' worth, towards no effect, of each partner's pressure


@dataclass(frozen=True, slots=True, kw_only=True)
class PairExample:
    """`job` measured at `speed` of its own beside `beside`; families are held out as a whole."""

    job: SoloProfile
    beside: SoloProfile
    speed: float
    family: str
    beside_family: str


def references(rows: Sequence[PairExample]) -> Mapping[str, float]:
    """Speed of each job's family beside gentle partners, by job key; never below 1.

    Slower than alone is an effect of sharing and says nothing of the solo run; faster cannot be.
    """
    gentle = _gentleness(rows)
    speeds_by_job: dict[str, float] = {}
    for family in sorted({row.family for row in rows}):
        own = [row for row in rows if row.family == family]
        if len({row.beside_family for row in own}) < FEWEST:
            continue
        weights = np.array([gentle[row.beside.key] for row in own])
        speeds = np.array([row.speed for row in own])
        at = float((weights @ speeds + PRIOR_ROWS) / (weights.sum() + PRIOR_ROWS))
        speeds_by_job |= dict.fromkeys((row.job.key for row in own), max(1.0, at))
    return speeds_by_job


def _gentleness(rows: Sequence[PairExample]) -> dict[str, float]:
    """Gentleness of partners by two-way means: 1 for the one that slows others least."""
    jobs = sorted({row.job.key for row in rows})
    besides = sorted({row.beside.key for row in rows})
    job_at, beside_at = ({key: n for n, key in enumerate(keys)} for keys in (jobs, besides))
    a = np.array([job_at[row.job.key] for row in rows])
    b = np.array([beside_at[row.beside.key] for row in rows])
    speeds = np.array([row.speed for row in rows])
    pressure = np.zeros(len(besides))
    for _ in range(20):  # two-way means settle in a few rounds
        left = speeds - pressure[b]
        level = np.bincount(a, left, len(jobs)) / np.bincount(a, minlength=len(jobs)).clip(1)
        left = speeds - level[a]
        pressure = np.bincount(b, left, len(besides)) / (
            np.bincount(b, minlength=len(besides)) + PULL
        )
    weights = np.exp((pressure - pressure.max()) / GENTLE)
    return dict(zip(besides, weights.tolist(), strict=True))
