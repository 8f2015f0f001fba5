"""Speeds of jobs of unseen families, from counters of each job alone; two protocols share it.

Two folders: the model learns from every row of the training folder and predicts the test folder's.
One folder (development): each family is predicted by what was learned from pairs without it. The
model calibrates its interval inside the rows it learns from, by leaving families out of those
(training/slowdown/fit_counter_model.py): the predicted family has no say. The kernel is fixed.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from contrib.bench.colocation import baselines as colocation_baselines
from contrib.bench.colocation.scores import Predictions, joined
from contrib.bench.common.arrays import Array, Marks
from slurm_ext.training.slowdown.fit_counter_model import CounterPlan, fit
from slurm_ext.training.slowdown.reference_speed import PairExample

QUICK_FOLDS = 2


@dataclass(frozen=True, slots=True)
class Row:
    """One direction of a pair; `raw` are the baselines' columns of both jobs, NaN where absent."""

    met: PairExample
    raw: tuple[float, ...]
    load: float  # of the device, 0..1, for additive utilisation
    beside_load: float
    device: str

    def touches(self, family: str) -> bool:
        """True if a job of that family is in the pair."""
        return family in {self.met.family, self.met.beside_family}


def predict(
    examples: Sequence[Row], queries: Sequence[Row], plan: CounterPlan, *, quick: bool
) -> Predictions:
    """Ours and the baselines', learned from `examples`, for `queries`."""
    model = fit([row.met for row in examples], plan)
    answers = np.empty((3, len(queries)))
    for device in sorted({row.device for row in queries}):
        at = [place for place, row in enumerate(queries) if row.device == device]
        speeds_there = model.speeds(
            [(queries[p].met.job, queries[p].met.beside) for p in at], device
        )
        answers[:, at] = speeds_there.mean, speeds_there.low, speeds_there.high
    speeds, raw = _speeds(examples), np.array([row.raw for row in examples])
    baselines = colocation_baselines.every(
        raw, speeds, np.array([row.raw for row in queries]), quick=quick
    )
    loads, besides = (
        np.array([getattr(row, name) for row in queries]) for name in ("load", "beside_load")
    )
    baselines["additive_utilisation"] = colocation_baselines.additive(loads, besides)
    mean, low, high = answers
    return Predictions(_speeds(queries), mean, low, high, baselines)


def leave_one_out(
    rows: Sequence[Row], plan: CounterPlan, *, quick: bool
) -> tuple[Predictions, list[Row], list[str]]:
    """Each family left out in turn: predictions, their rows, and the unseen family of each row."""
    parts, queries, unseen = [], [], []
    for family, examples, left in _folds(rows):
        parts.append(predict(examples, left, plan, quick=quick))
        queries += left
        unseen += [family] * len(left)
        if quick and len(parts) == QUICK_FOLDS:
            break
    return joined(parts), queries, unseen


def sides(queries: Sequence[Row], families: set[str] | Sequence[str]) -> dict[str, Marks]:
    """Marks of rows by which side is of a family not learned from; a list names it row by row."""
    own, other = [], []
    for place, row in enumerate(queries):
        unseen = families if isinstance(families, set) else {families[place]}
        own.append(row.met.family in unseen)
        other.append(row.met.beside_family in unseen)
    a, b = np.array(own, bool), np.array(other, bool)
    return {"job_unseen": a & ~b, "companion_unseen": b & ~a, "both_unseen": a & b}


def by_unseen(families: Sequence[str]) -> dict[str, Marks]:
    """Marks of the rows that each unseen family was predicted in, and of all rows but those."""
    names = np.array(families)
    marks = {f"unseen {name}": names == name for name in sorted(set(families))}
    return marks | {f"all but {name.removeprefix('unseen ')}": ~at for name, at in marks.items()}


def _folds(rows: Sequence[Row]) -> Iterator[tuple[str, list[Row], list[Row]]]:
    families = {name for row in rows for name in (row.met.family, row.met.beside_family)}
    for family in sorted(families):
        left = [row for row in rows if row.touches(family)]
        examples = [row for row in rows if not row.touches(family)]
        if examples and left:
            yield family, examples, left


def _speeds(rows: Sequence[Row]) -> Array:
    return np.array([row.met.speed for row in rows])
