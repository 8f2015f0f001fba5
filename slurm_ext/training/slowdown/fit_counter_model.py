"""Fit model/slowdown/counter_model.py to measured pairs: reference speeds, process and width.

The width comes from held-out families of jobs, never from rows: pairs of one family with itself
and with everything else are predicted without any pair that it was in. The kernel is fixed.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from slurm_ext.core.errors import ModelError
from slurm_ext.core.stats import NORMAL_90
from slurm_ext.model.arrays import Array
from slurm_ext.model.slowdown.counter_kernel import CounterKernel
from slurm_ext.model.slowdown.counter_model import (
    CounterModel,
    PairObservations,
    SpeedPredictions,
    collect_jobs,
    log_odds,
    noise_var,
    view,
)
from slurm_ext.model.slowdown.features import CounterColumn, Scale, fit_scale
from slurm_ext.model.throughput.calibration import LEVEL
from slurm_ext.training.slowdown.reference_speed import PairExample, references

MOST_ROWS = 1600  # a process costs the cube of its rows
MOST_PARTS = 8  # that families are left out in
FEWEST_LEFT_OUT = 20  # outcomes, to calibrate by
TOP_RANGE = (1.05, 1.5)


@dataclass(frozen=True, slots=True, kw_only=True)
class CounterPlan:
    """Columns of a model, and the views (names of some columns) that it averages."""

    device: str
    columns: tuple[CounterColumn, ...]
    views: tuple[tuple[str, ...], ...]


def fit(rows: Sequence[PairExample], plan: CounterPlan, *, seed: int = 0) -> CounterModel:
    """Fit a calibrated model. Raises ModelError if no counter differs between the jobs."""
    rows = _some([row for row in rows if 0 < row.speed < np.inf], MOST_ROWS, seed)
    model = fitted(rows, plan)
    return replace(model, widths=_widths(rows, plan))


def fitted(rows: Sequence[PairExample], plan: CounterPlan) -> CounterModel:
    """Fit the process to `rows`; its interval is not calibrated yet."""
    if not rows:
        raise ModelError("no pair was measured: nothing to learn from")
    pairs = [(row.job, row.beside) for row in rows]
    likeness = CounterKernel()
    among = fit_scale(plan.columns, _different(rows))
    if not among.columns:
        raise ModelError("no counter of the jobs differs between them: nothing to learn from")
    jobs, at = collect_jobs(among, pairs)
    truer = references(rows)
    speeds = np.array([row.speed / truer.get(row.job.key, 1.0) for row in rows])
    top = float(np.clip(1.05 * np.quantile(speeds, 0.98), *TOP_RANGE))
    met = PairObservations(at, log_odds(speeds, top), noise_var(likeness, speeds, top))
    return CounterModel(
        device=plan.device,
        scale=among,
        likeness=likeness,
        jobs=jobs,
        met=met,
        views=tuple(view(likeness, jobs, met, columns) for columns in _views(among, plan)),
        top=top,
        references=truer,
    )


def left_out(
    rows: Sequence[PairExample], plan: CounterPlan
) -> Iterator[tuple[SpeedPredictions, Array]]:
    """Predict pairs without the families in them; also yield their measured speeds.

    One family at a time, or several where there are many. Parts that leave too little to fit are
    skipped.
    """
    families = _families(rows)
    parts = min(MOST_PARTS, len(families))
    for part in range(parts):
        without = set(families[part::parts])
        held_out = [row for row in rows if {row.family, row.beside_family} & without]
        learned = [row for row in rows if not {row.family, row.beside_family} & without]
        try:
            model = fitted(learned, plan)
        except ModelError:
            continue
        predicted = model.speeds([(row.job, row.beside) for row in held_out])
        yield predicted, np.array([row.speed for row in held_out])


def _widths(rows: Sequence[PairExample], plan: CounterPlan) -> tuple[float, float]:
    """Split conformal: standard deviations below and above that held nine in ten left-out pairs.

    An unseen family is one more draw beside the n left out: wider by sqrt(1 + 1/n).
    """
    families = len(_families(rows))
    if families < 2:
        return NORMAL_90, NORMAL_90
    off: list[float] = []
    for predicted, speeds in left_out(rows, plan):
        off.extend(predicted.missed(speeds))
    if len(off) < FEWEST_LEFT_OUT:
        return NORMAL_90, NORMAL_90
    tail = (1.0 - LEVEL) / 2.0
    below, above = np.quantile(off, [1.0 - tail, tail]) * np.sqrt(1.0 + 1.0 / families)
    return max(float(below), 0.1), max(-float(above), 0.1)


def _families(rows: Sequence[PairExample]) -> list[str]:
    return sorted({name for row in rows for name in (row.family, row.beside_family)})


def _different(rows: Sequence[PairExample]) -> list[dict[str, float]]:
    """The counters of every job once."""
    every = {
        (solo.key, tuple(sorted(solo.features.items()))): dict(solo.features)
        for row in rows
        for solo in (row.job, row.beside)
    }
    return [every[who] for who in sorted(every)]


def _views(among: Scale, plan: CounterPlan) -> list[tuple[int, ...]]:
    """The plan's views as places of columns that there are; all columns where none is left."""
    at = {column.name: place for place, column in enumerate(among.columns)}
    views = [tuple(at[name] for name in view if name in at) for view in plan.views]
    kept = list(dict.fromkeys(view for view in views if view))
    return kept or [tuple(range(len(among.columns)))]


def _some(rows: Sequence[PairExample], most: int, seed: int) -> list[PairExample]:
    if len(rows) <= most:
        return list(rows)
    picked = np.random.default_rng(seed).choice(len(rows), most, replace=False)
    return [rows[place] for place in sorted(picked)]
