"""Pollux/Sia: from a few measured configs of an unseen training to all the others.

Of every (model, cluster) of the test folder, 3, 6 and 12 structured points are revealed, and 10
and 20 random ones by several seeds; every other config is predicted (a second measurement of a
revealed config is not). Structured points are what a profiler would measure first; their order is
in `slurm_ext/training/scaling/rows.py` (6: one GPU with the smallest and the largest batch, a full
node, two nodes of one GPU, two full ones, four full ones; or the nearest that the table has).

The training set never contains the predicted training. If the training folder has that pair of
model and cluster, it is predicted twice: without any row of the model, and without any row of the
cluster. Otherwise it is predicted from the whole training folder. Figures are pooled over rows,
and by what was unseen: the model, the cluster, or both.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from contrib.bench.common.arrays import Array
from contrib.bench.throughput.baselines import (
    LAWS,
    Law,
    Lesson,
    corrected_law,
    gp_on_pollux,
    linear,
    pollux,
)
from contrib.bench.throughput.scores import RatePredictions, scores
from contrib.bench.throughput.tables import read, site
from slurm_ext.model.scaling.family import Family
from slurm_ext.model.scaling.model import ScalingMeasurement, fit
from slurm_ext.model.scaling.terms import columns
from slurm_ext.training.scaling.interval_calibration import trained
from slurm_ext.training.scaling.rows import ScalingRow, by_pair, drawn, others, structured

Pair = tuple[str, str]

STRUCTURED = (3, 6, 12)
DRAWN = (10, 20)
SEEDS = (1, 2, 3, 4, 5)
LESSON_SEEDS = (101, 102)
LESSON_ROWS = 150  # of one reveal of one training, that trees learn from
QUICK_PAIRS = 2
CORRECTED: dict[str, Law] = {"lightgbm_transfer": linear, "pollux_x_lightgbm": pollux}
TARGETS = {"structured_6": 12.0, "random_20": 5.0}
COVERAGE = (0.88, 0.92)


@dataclass(frozen=True, slots=True)
class Reveal:
    """One draw of known configs of one training."""

    protocol: str
    pair: Pair
    known: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Without:
    """Rows to leave out of training: a model's, a cluster's (site), or none."""

    model: str | None = None
    cluster: str | None = None

    def keeps(self, row: ScalingRow) -> bool:
        """True if the row may be used for training."""
        return row.model != self.model and row.cluster != self.cluster


def run(
    train: Path, test: Path, *, quick: bool, progress: Callable[[float], None]
) -> dict[str, Any]:
    """Figures by protocol; `progress` is called with the share that is done. Raises InputError."""
    train_table, test_table = read(train), read(test)
    learn_from = [
        ScalingRow(model=r.model, cluster=site(r.cluster), measured=r.measured)
        for r in train_table.rows
    ]
    pairs = by_pair(test_table.rows)
    if quick:
        fewest = sorted(pairs, key=lambda pair: len(pairs[pair]))[:QUICK_PAIRS]
        pairs = {pair: pairs[pair] for pair in fewest}
    every: list[RatePredictions] = []
    work = list(_work(pairs, learn_from))
    bench = _Bench(learn_from, pairs)
    for done, (without, pair) in enumerate(work):
        progress(done / len(work))
        every += bench.predictions(without, pair, SEEDS[:1] if quick else SEEDS)
    figures = {
        name: _figures(every, name)
        for name in dict.fromkeys(prediction.protocol for prediction in every)
    }
    return {**figures, "skipped": sorted({*train_table.skipped, *test_table.skipped})}


def wanted(figures: dict[str, Any]) -> list[dict[str, Any]]:
    """Targets, each with the measured value."""
    rows: list[dict[str, Any]] = []
    for protocol, target in TARGETS.items():
        if protocol not in figures:  # every training has too few configs
            continue
        ours = figures[protocol]["ours"]
        what = f"{protocol}: medAPE at most, per cent"
        met = ours["medape"] <= target
        rows.append({"what": what, "target": target, "got": ours["medape"], "met": met})
        what, inside = f"{protocol}: share inside the 90 % interval", ours["coverage90"]
        met = COVERAGE[0] <= inside <= COVERAGE[1]
        rows.append({"what": what, "target": list(COVERAGE), "got": inside, "met": met})
    return rows


def _work(pairs: Iterable[Pair], rows: Sequence[ScalingRow]) -> Iterator[tuple[Without, Pair]]:
    """Each training with what must not be learned from, alike ones behind each other."""
    learnt_from = {(row.model, row.cluster) for row in rows}
    every: list[tuple[Without, Pair]] = []
    for model, cluster in pairs:
        if (model, site(cluster)) in learnt_from:
            every.append((Without(model=model), (model, cluster)))
            every.append((Without(cluster=site(cluster)), (model, cluster)))
        else:
            every.append((Without(), (model, cluster)))
    return iter(sorted(every, key=lambda one: (str(one[0].model), str(one[0].cluster), one[1])))


def reveals(
    pair: Pair, points: Sequence[ScalingMeasurement], seeds: Sequence[int]
) -> Iterator[Reveal]:
    """All draws of one training; a training with too few configs has fewer of them."""
    for count in STRUCTURED:
        yield Reveal(f"structured_{count}", pair, tuple(structured(points, count)))
    for count in DRAWN:
        for seed in seeds:
            yield Reveal(f"random_{count}", pair, tuple(drawn(points, count, seed)))


class _Bench:
    """Everything corrected_law, kept as long as it is asked for again."""

    def __init__(
        self, rows: Sequence[ScalingRow], pairs: dict[Pair, list[ScalingMeasurement]]
    ) -> None:
        self.rows, self.pairs = rows, pairs
        self.train_pairs = by_pair(rows)
        self.family = lru_cache(maxsize=1)(self._family)
        self.trees = lru_cache(maxsize=None)(self._trees)
        self.laws = lru_cache(maxsize=None)(self._laws)
        self.lessons = lru_cache(maxsize=None)(self._lessons)

    def predictions(
        self, without: Without, pair: Pair, seeds: Sequence[int]
    ) -> Iterator[RatePredictions]:
        """Predictions of one training by ours and every baseline."""
        model, cluster = pair
        family, points = self.family(without), self.pairs[pair]
        prior = family.prior(model=model, cluster=site(cluster))
        for reveal in reveals(pair, points, seeds):
            left = others(points, reveal.known)
            if not left:
                continue
            rate, low, high = fit([points[i] for i in reveal.known], prior).rates(
                [points[i].config for i in left]
            )
            rates = {"ours": rate, **self.laws(reveal), **self._corrected(without, reveal)}
            measured = np.array([points[i].samples_per_s for i in left])
            unseen = _unseen(family, model, site(cluster))
            yield RatePredictions(reveal.protocol, pair, unseen, measured, low, high, rates)

    def _family(self, without: Without) -> Family:
        return trained(row for row in self.rows if without.keeps(row))

    def _laws(self, reveal: Reveal) -> dict[str, Array]:
        lesson = _lesson(self.pairs[reveal.pair], reveal.known)
        logs = {
            name: law(lesson.known, lesson.known_logs, lesson.asked) for name, law in LAWS.items()
        }
        logs["gp_on_pollux"] = gp_on_pollux(
            lesson.known, lesson.known_logs, lesson.asked, logs["pollux"]
        )
        return {name: np.exp(each) for name, each in logs.items()}

    def _corrected(self, without: Without, reveal: Reveal) -> dict[str, Array]:
        lesson = _lesson(self.pairs[reveal.pair], reveal.known)
        rates = {}
        for name in CORRECTED:
            trees = self.trees(without, reveal.protocol, name)
            rates[name] = np.exp(trees(lesson.known, lesson.known_logs, lesson.asked))
        return rates

    def _trees(self, without: Without, protocol: str, law: str) -> Law:
        both = [
            (lesson, logs[law])
            for pair in self.train_pairs
            if pair[0] != without.model and pair[1] != without.cluster
            for lesson, logs in self.lessons(pair, protocol)
        ]
        lessons, predicted = zip(*both, strict=True)
        return corrected_law(lessons, predicted, CORRECTED[law])

    def _lessons(self, pair: Pair, protocol: str) -> list[tuple[Lesson, dict[str, Array]]]:
        """Predictions of each law to be corrected, for reveals of a training that may be used."""
        points = self.train_pairs[pair]
        mine = (one for one in reveals(pair, points, LESSON_SEEDS) if one.protocol == protocol)
        every = [_lesson(points, one.known, most=LESSON_ROWS) for one in mine]
        return [
            (one, {n: law(one.known, one.known_logs, one.asked) for n, law in CORRECTED.items()})
            for one in every
        ]


def _lesson(
    points: Sequence[ScalingMeasurement], known: Sequence[int], most: int | None = None
) -> Lesson:
    left = np.array(others(points, known))
    if most is not None:
        left = np.random.default_rng(len(left)).permutation(left)[:most]
    at = columns([one.config for one in points])
    logs = np.log([one.samples_per_s for one in points])
    at_known = list(known)
    return Lesson(at[at_known], logs[at_known], at[left], logs[left])


def _unseen(family: Family, model: str, cluster: str) -> str:
    """Unseen part of the training: model, cluster or both; a known pair is never predicted."""
    new = [model not in family.models, cluster not in family.clusters]
    return "both_unseen" if all(new) else "model_unseen" if new[0] else "cluster_unseen"


def _figures(every: Sequence[RatePredictions], protocol: str) -> dict[str, Any]:
    """Pooled over rows, by what was unseen, and ours by training."""
    mine = [prediction for prediction in every if prediction.protocol == protocol]
    by_unseen = {
        unseen: scores([prediction for prediction in mine if prediction.unseen == unseen])
        for unseen in sorted({prediction.unseen for prediction in mine})
    }
    by_pair_ = {
        f"{pair[1]}/{pair[0]}": scores(
            [prediction for prediction in mine if prediction.pair == pair]
        )["ours"]["medape"]
        for pair in sorted({prediction.pair for prediction in mine})
    }
    return {**scores(mine), **by_unseen, "medape_by_training": by_pair_}
