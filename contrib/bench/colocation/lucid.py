"""Lucid's pairs: a job beside another of an unseen model, from NVML's figures of each alone.

Tables: gpu_coloc/lucid_pairs.csv, gpu_coloc/lucid_solo.csv. Features of a job: its GPU utilisation
alone, batch size and mixed precision. Columns measured during the pairing (pair_*) come with the
answer and are not read. A model's name only says what to leave out; it is no feature.

Chosen on the training folder's table, leaving one model out: the columns, and the correction of
wrong solo speeds (training/slowdown/reference_speed.py).
"""

from collections.abc import Mapping, Sequence
from math import log2
from pathlib import Path

import numpy as np

from contrib.bench.colocation.scores import ProtocolResult, scores, wanted
from contrib.bench.colocation.tables import Cells, measured_cells, positive, read, same
from contrib.bench.colocation.unseen_families import (
    Row,
    by_unseen,
    leave_one_out,
    predict,
    sides,
)
from slurm_ext.core.errors import InputError
from slurm_ext.core.gpu_sharing import SoloProfile
from slurm_ext.model.slowdown.features import CounterColumn
from slurm_ext.training.slowdown.fit_counter_model import CounterPlan
from slurm_ext.training.slowdown.reference_speed import PairExample

PAIRS, SOLOS = "lucid_pairs.csv", "lucid_solo.csv"
MAE = 0.055
DEVICE = "gpu"
IDENTITY = ("model", "dataset", "batchsize", "amp")
BASELINE = ("gpu_util", "gmem_util", "gmem_mib", "amp", "batchsize")
PLAN = CounterPlan(
    device=DEVICE,
    columns=(CounterColumn("gpu_util"), CounterColumn("amp"), CounterColumn("log2_batch")),
    views=(("gpu_util",), ("gpu_util", "amp", "log2_batch")),
)
Name = tuple[str, ...]
Pair = tuple[tuple[Name, float], tuple[Name, float]]


def protocol(train: Path, test: Path, *, quick: bool) -> ProtocolResult:
    """Raises InputError where a table is lacking or holds nothing."""
    solos, skipped = _solos(train)
    pairs, bad = _pairs(train)
    query_pairs: list[Pair] = []
    if not same(train, test):
        more, missed = _solos(test)
        query_pairs, worse = _pairs(test)
        solos = {**more, **solos}
        bad += [*missed, *worse]
    rows, queries = (_rows(each, solos) for each in (pairs, query_pairs))
    skipped += [*bad, *_lacking([*pairs, *query_pairs], solos)]
    if not rows or not (queries or same(train, test)):
        raise InputError(str(test / "gpu_coloc" / PAIRS), "no pair's jobs are in the solo table")
    if same(train, test):
        predictions, queries, left = leave_one_out(rows, PLAN, quick=quick)
        marks = sides(queries, left) | by_unseen(left)
    else:
        predictions = predict(rows, queries, PLAN, quick=quick)
        models = {name for row in rows for name in (row.met.family, row.met.beside_family)}
        query_models = {n for row in queries for n in (row.met.family, row.met.beside_family)}
        marks = sides(queries, query_models - models)
    figures = scores(predictions)
    figures |= {side: scores(predictions, at)["ours"] for side, at in marks.items() if at.any()}
    return ProtocolResult({"lucid": figures}, wanted("lucid", figures["ours"], mae=MAE), skipped)


def _solos(folder: Path) -> tuple[dict[Name, dict[str, float]], list[str]]:
    """Solo figures by configuration."""

    def row(cells: Cells) -> tuple[Name, dict[str, float]]:
        return tuple(cells[name] for name in IDENTITY), measured_cells(cells, BASELINE)

    rows, skipped = read(folder / "gpu_coloc" / SOLOS, IDENTITY, row)
    return dict(rows), skipped


def _pairs(folder: Path) -> tuple[list[Pair], list[str]]:
    columns = [f"{name}{side}" for name in (*IDENTITY, "speed") for side in "12"]

    def row(cells: Cells) -> Pair:
        first, second = (
            (tuple(cells[f"{name}{side}"] for name in IDENTITY), positive(cells, f"speed{side}"))
            for side in "12"
        )
        return first, second

    rows, skipped = read(folder / "gpu_coloc" / PAIRS, columns, row)
    return rows, skipped


def _rows(pairs: Sequence[Pair], solos: Mapping[Name, dict[str, float]]) -> list[Row]:
    """Both directions of the pairs whose jobs were measured alone."""
    out = []
    for first, second in pairs:
        if first[0] in solos and second[0] in solos:
            out += [_row(first, second, solos), _row(second, first, solos)]
    return out


def _row(
    own: tuple[Name, float], other: tuple[Name, float], solos: Mapping[Name, dict[str, float]]
) -> Row:
    a, b = own[0], other[0]
    met = PairExample(
        job=_solo(a, solos[a]),
        beside=_solo(b, solos[b]),
        speed=own[1],
        family=a[0],
        beside_family=b[0],
    )
    raw = tuple(solos[job].get(name, np.nan) for job in (a, b) for name in BASELINE)
    load, beside = (solos[job].get("gpu_util", np.nan) / 100 for job in (a, b))
    return Row(met, raw, load, beside, DEVICE)


def _solo(name: Name, counters: Mapping[str, float]) -> SoloProfile:
    features = {key: counters[key] for key in ("gpu_util", "amp") if key in counters}
    if counters.get("batchsize", 0) > 0:
        features["log2_batch"] = log2(counters["batchsize"])
    return SoloProfile(key="|".join(name), features=features)


def _lacking(pairs: Sequence[Pair], solos: Mapping[Name, dict[str, float]]) -> list[str]:
    jobs = {side[0] for pair in pairs for side in pair} - set(solos)
    return [f"{SOLOS}: no solo row of {' '.join(job)}; its pairs are left out" for job in jobs]
