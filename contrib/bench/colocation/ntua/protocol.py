"""nginx beside noisy neighbours, with counters taken during the run: NTUA's campaigns.

With a test folder of its own, its campaigns and mixes are predicted from the training folder's
runs, each with one kind of neighbour. With the same folder twice (development), runs are left out
by count of one kind (as new as a mix), by campaign, and by family of campaigns.

Runs without a neighbour have speed 1 by definition, and every method knows it; `..._beside` leaves
them out. Ours is a study: dlqueue has no such counters during a run and no such model. Noise:
repeats in another campaign differ by 0.11 (README of the public tables).
"""

from pathlib import Path
from typing import Any

import numpy as np

from contrib.bench.colocation import baselines as standard
from contrib.bench.colocation.ntua.composition import composed
from contrib.bench.colocation.ntua.model import (
    Rows,
    blind,
    filled,
    folds,
    held_out_residuals,
    joined_residuals,
    predict,
    product,
    residuals,
)
from contrib.bench.colocation.ntua.tables import Runs, runs
from contrib.bench.colocation.scores import Predictions, ProtocolResult, joined, scores, wanted
from contrib.bench.colocation.tables import same
from contrib.bench.common.arrays import Array

TARGET = 0.115
QUICK_TREES = 20
METHODS = ("mean", "ridge", "random_forest", "extra_trees", "lightgbm")  # 80 columns: no process
QUICK_METHODS = ("mean", "ridge")
QUICK_FOLDS = 3
MISS_TREES = 50  # of forests that only tell how wide to be


def protocol(train: Path, test: Path, *, quick: bool) -> ProtocolResult:
    """Raises InputError where a folder lacks the table."""
    queries, skipped = runs(test)
    if same(train, test):
        return _development(queries, skipped, quick=quick)
    examples, bad = runs(train)
    predictions = _whole(examples, queries, quick=quick)
    new = ~np.isin(queries.campaign, examples.campaign)
    mixed = (np.nan_to_num(queries.beside) > 0).sum(axis=1) != 1
    figures = {
        "ntua": scores(predictions),
        "ntua_beside": scores(predictions, ~queries.alone),
        "ntua_new_campaigns": scores(predictions, new & ~(mixed & ~queries.alone)),
        "ntua_new_mixes": scores(predictions, mixed & ~queries.alone),
    }
    return ProtocolResult(
        figures, wanted("ntua", figures["ntua"]["ours"], mae=TARGET), [*bad, *skipped]
    )


def _whole(examples: Runs, queries: Runs, *, quick: bool) -> Predictions:
    """Predictions; intervals from residuals of examples left out that were as new as each row."""
    trees = {"trees": QUICK_TREES} if quick else {}
    ways = {name: way[: QUICK_FOLDS if quick else None] for name, way in folds(examples).items()}
    prediction = predict(examples, queries, **trees)
    low, high = np.empty_like(prediction.mean), np.empty_like(prediction.mean)
    for name, rows in _novelty(examples, queries).items():
        if rows.any():
            ends = held_out_residuals(examples, ways[name], trees=MISS_TREES).ends(prediction)
            low[rows], high[rows] = (end[rows] for end in ends)
    return _predictions(
        queries, prediction.mean, low, high, _baselines(examples, queries, quick=quick)
    )


def _novelty(examples: Runs, queries: Runs) -> dict[str, Rows]:
    """Which way of leaving out a row is like: another family of campaigns, another one, a mix."""
    family = np.isin(queries.family, examples.family, invert=True)
    campaign = np.isin(queries.campaign, examples.campaign, invert=True)
    mixed = (queries.beside > 0).sum(axis=1) != 1
    new = campaign & ~family & ~mixed
    return {"families": family, "campaigns": new, "counts": ~family & ~new}


def _development(every: Runs, skipped: list[str], *, quick: bool) -> ProtocolResult:
    figures: dict[str, Any] = {"ntua_composition": composed(every)}
    rows: list[dict[str, Any]] = []
    for name, way in folds(every).items():
        predictions = _left_out(every, way[: QUICK_FOLDS if quick else None], quick=quick)
        figures[f"ntua_{name}"] = scores(predictions)
        figures[f"ntua_{name}_beside"] = scores(predictions, predictions.measured != 1.0)
        if name != "families":
            rows += wanted(f"ntua_{name}", figures[f"ntua_{name}"]["ours"], mae=TARGET)
    return ProtocolResult(figures, rows, skipped)


def _left_out(every: Runs, way: list[Any], *, quick: bool) -> Predictions:
    """Each part by the others; its interval by what the other parts were held_out_residuals by."""
    parts = [(every.take(learn), every.take(ask)) for _, learn, ask in way]
    trees = {"trees": QUICK_TREES} if quick else {}
    each = [predict(learn, ask, **trees) for learn, ask in parts]
    off = [residuals(prediction, ask) for prediction, (_, ask) in zip(each, parts, strict=True)]
    folds = []
    for at, (prediction, (learn, ask)) in enumerate(zip(each, parts, strict=True)):
        rest = [residual for place, residual in enumerate(off) if place != at]
        low, high = joined_residuals(rest).ends(prediction)
        folds.append(
            _predictions(ask, prediction.mean, low, high, _baselines(learn, ask, quick=quick))
        )
    return joined(folds)


def _predictions(
    queries: Runs, mean: Array, low: Array, high: Array, others: dict[str, Array]
) -> Predictions:
    alone = queries.alone
    return Predictions(
        queries.speed,
        mean,
        np.where(alone, 1.0, low),
        np.where(alone, 1.0, high),
        {name: np.where(alone, 1.0, each) for name, each in others.items()},
    )


def _baselines(examples: Runs, queries: Runs, *, quick: bool) -> dict[str, Array]:
    """Standard methods on the same counters and neighbours; who has none is at 1 for all."""
    columns = [
        np.column_stack([part.context, part.beside, part.plain]) for part in (examples, queries)
    ]
    learn, ask = filled(*columns)
    predictions = {
        name: standard.METHODS[name](learn, examples.speed, ask)
        for name in (QUICK_METHODS if quick else METHODS)
    }
    predictions["product_of_singles"] = product(examples, queries)
    trees = {"trees": QUICK_TREES} if quick else {}
    predictions["ours_not_told_who"] = predict(examples, blind(queries), **trees).mean
    return predictions
