"""Features of pairs on a GPU without any measured pair, from other GPUs' tables and solo rates.

GPUs before Volta slice time between processes, later ones may run kernels side by side. So a table
of the same kind of GPU counts more: by the part of its deviations that such tables were seen to
share (README of the public tables: P100 and K80 correlate 0.65, V100 with them 0.3 to 0.35, at
twice their spread). A job that is slower on a slower GPU is bound by the GPU, and presses harder
on its partner: BOUND a standard deviation of the log rates' ratio. The three numbers follow from
this reasoning and were checked on one GPU (V100 to P100); a third GPU is their test.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from contrib.bench.colocation.gavel_tables import Table
from contrib.bench.common.arrays import Array

SAME_KIND, OTHER_KIND = 0.65, 0.16
BOUND = 0.1
SLICED_SD = 0.25  # of log speeds between half and whole: what fair slices of time give
LEVEL_SD = 0.1
BELOW, ABOVE = 1.96, 1.44  # normal: 2.5 % below and 7.5 % above, as the product does


@dataclass(frozen=True, slots=True)
class Source:
    """Another GPU's table, in logs."""

    table: Table
    off: dict[tuple[str, str], float]
    level: float
    sd: float
    share: float


def columns(new: Table, others: Sequence[Table]) -> dict[str, Array]:
    """By job: how little each other GPU shows it bound by the GPU, standardised; 0: not known.

    The log of its rate here over there, of which the bound ones have most where this GPU is faster
    than the other one, and least where it is slower.
    """
    logs = {
        job: [np.log(rate / other.solo[job]) if job in other.solo else np.nan for other in others]
        for job, rate in new.solo.items()
    }
    every = np.array(list(logs.values()), dtype=np.float64)
    middle, spread = np.nanmean(every, axis=0), np.nanstd(every, axis=0)
    faster = np.where(np.nanmedian(every, axis=0) > 0, -1.0, 1.0)
    scaled = np.nan_to_num(faster * (every - middle) / np.where(spread > 0, spread, 1.0))
    return dict(zip(logs, scaled, strict=True))


def unseen(
    new: Table, others: Sequence[Table], queries: Sequence[tuple[str, str]]
) -> tuple[Array, Array, Array]:
    """Mean and 90 % interval of the speeds of `queries` on a GPU without any pair."""
    sources = _nearest([_source(new, other) for other in others])
    ratios = columns(new, [source.table for source in sources])
    share, level = sources[0].share, float(np.mean([source.level for source in sources]))
    logs = np.array(
        [
            level
            + share * np.mean([source.off.get(pair, 0.0) for source in sources])
            + BOUND * (1.0 - share) * ratios[pair[1]].mean()
            for pair in queries
        ]
    )
    spread = float(np.mean([source.sd for source in sources]))
    if sliced(new.gpu):
        spread = min(spread, SLICED_SD)
    sd = np.sqrt(LEVEL_SD**2 + spread**2 * (1.0 - share**2))
    return np.exp(logs), np.exp(logs - BELOW * sd), np.exp(logs + ABOVE * sd)


def sliced(gpu: str) -> bool:
    """True if the GPU is a Kepler, Maxwell or Pascal: processes take turns on it."""
    return gpu[:1].lower() in {"k", "m", "p"} and gpu[1:2].isdigit()


def deviations(other: Table) -> dict[tuple[str, str], float]:
    """Of each pair: its log speed from the mean of the table."""
    level = float(np.log(list(other.speeds.values())).mean())
    return {pair: float(np.log(speed)) - level for pair, speed in other.speeds.items()}


def _source(new: Table, other: Table) -> Source:
    logs = np.log(list(other.speeds.values()))
    share = SAME_KIND if sliced(new.gpu) == sliced(other.gpu) else OTHER_KIND
    return Source(other, deviations(other), float(logs.mean()), float(logs.std()), share)


def _nearest(sources: Sequence[Source]) -> list[Source]:
    most = max(source.share for source in sources)
    return [source for source in sources if source.share == most]
