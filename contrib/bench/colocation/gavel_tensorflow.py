"""Gavel's TensorFlow pairs: a job beside another of an unseen family, from solo profiles.

Tables: gpu_coloc/gavel_tf_pairs.csv, gpu_coloc/gavel_tf_nvprof.csv. Profiles of both folders may
be used (they are of a job alone); measured pairs only of the training folder. If a GPU has no
complete profile of an app, the missing counters come from the app's profile on another GPU, with
kernels longer by the ratio of the solo rates; then from another date; else they are absent. Left
out: infeasible pairs, and rows of the 2018 alexnet, whose solo rate is broken (README of the
tables). `gavel_tf` is scored on the GPUs with training pairs, `gavel_tf_other_gpus` on the others.

Chosen on the training folder's table, leaving one family out: the counters, the offset of 100 us
under the logarithm of a kernel's time (short kernels are alike, since long ones decide who waits;
any offset from 80 to 400 us scores alike), and the default spreads of
model/slowdown/counter_kernel.py.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from contrib.bench.colocation.scores import ProtocolResult, scores, wanted
from contrib.bench.colocation.tables import Cells, measured_cells, positive, read, same
from contrib.bench.colocation.unseen_families import Row, leave_one_out, predict, sides
from slurm_ext.core.errors import InputError
from slurm_ext.core.gpu_sharing import SoloProfile
from slurm_ext.model.slowdown.features import CounterColumn
from slurm_ext.training.slowdown.fit_counter_model import CounterPlan
from slurm_ext.training.slowdown.reference_speed import PairExample

PAIRS, PROFILES = "gavel_tf_pairs.csv", "gavel_tf_nvprof.csv"
MAE = 0.055
BROKEN = {("v100", "2018-12-27", "alexnet"), ("p100", "2018-12-27", "alexnet")}
COUNTERS = (
    "dram_read_throughput",
    "dram_write_throughput",
    "eligible_warps_per_cycle",
    "ipc",
    "l2_read_throughput",
    "l2_write_throughput",
    "sm_efficiency",
    "warp_execution_efficiency",
    "mean_kernel_us",
    "sp_tflops_on_gpu_time",
    "gpu_kernel_time_ms",
    "gpu_memcpy_time_ms",
)
BASELINE = (*COUNTERS, "copy_share")
COLUMNS = (
    CounterColumn("kernel_us", 100.0),
    CounterColumn("copy_share", 0.0),
    CounterColumn("dram_gb_s", 0.0),
    CounterColumn("l2_gb_s", 0.0),
    CounterColumn("ipc", 0.0),
    CounterColumn("tflops", 0.0),
)
VIEWS = (
    ("kernel_us", "copy_share"),
    ("kernel_us", "copy_share", "dram_gb_s"),
    ("kernel_us", "copy_share", "dram_gb_s", "l2_gb_s", "ipc", "tflops"),
)
At = tuple[str, str, str]  # gpu, date, app


@dataclass(frozen=True, slots=True)
class Side:
    """One job of a pair, and its speed beside the other."""

    at: At
    family: str
    solo: float
    speed: float


def protocol(train: Path, test: Path, *, quick: bool) -> ProtocolResult:
    """Raises InputError where a table is lacking or holds nothing."""
    learned, skipped = _pairs(train)
    query_pairs, more = ([], []) if same(train, test) else _pairs(test)
    profiles = _profiles(train, skipped)
    if query_pairs:
        profiles |= _profiles(test, skipped, needed=False)
    skipped += more
    solos = _solo_speeds([*learned, *query_pairs])
    rows, queries = (
        [_row(pair, profiles, solos) for pair in each] for each in (learned, query_pairs)
    )
    plan = CounterPlan(device=_home(rows), columns=COLUMNS, views=VIEWS)
    unseen: Sequence[str] | set[str]
    if same(train, test):
        predictions, queries, unseen = leave_one_out(rows, plan, quick=quick)
    else:
        predictions, unseen = predict(rows, queries, plan, quick=quick), _unseen(rows, queries)
    return _result(predictions, queries, unseen, {row.device for row in rows}, skipped)


def _result(
    predictions: Any, queries: Sequence[Row], unseen: Any, homes: set[str], skipped: list[str]
) -> ProtocolResult:
    at_home = np.array([row.device in homes for row in queries], bool)
    figures, rows = {}, []
    if at_home.any():
        figures["gavel_tf"] = scores(predictions, at_home)
        for side, marks in sides(queries, unseen).items():
            if (marks & at_home).any():
                figures["gavel_tf"][side] = scores(predictions, marks & at_home)["ours"]
        rows = wanted("gavel_tf", figures["gavel_tf"]["ours"], mae=MAE, accepts=True)
    if not at_home.all():
        figures["gavel_tf_other_gpus"] = scores(predictions, ~at_home)
        for device in sorted({row.device for row in queries} - homes):
            marks = np.array([row.device == device for row in queries], bool)
            figures["gavel_tf_other_gpus"][device] = scores(predictions, marks)["ours"]
    return ProtocolResult(figures, rows, skipped)


def _pairs(folder: Path) -> tuple[list[tuple[Side, Side]], list[str]]:
    """Both directions of every feasible pair, and what was left out."""
    columns = [f"{name}_{side}" for name in ("app", "family", "solo", "rel") for side in "ab"]
    path = folder / "gpu_coloc" / PAIRS
    infeasible = 0

    def sides(cells: Cells) -> tuple[Side, Side] | None:
        nonlocal infeasible
        if cells["infeasible"].strip() in {"", "0"}:
            return _sides(cells)
        infeasible += 1
        return None

    rows, skipped = read(path, ["gpu", "date", "infeasible", *columns], sides)
    both = [direction for a, b in rows for direction in ((a, b), (b, a))]
    kept = [pair for pair in both if pair[0].at not in BROKEN]
    if not kept:
        raise InputError(str(path), "holds no feasible pair")
    counts = {"infeasible pairs": infeasible, "speeds of a broken solo": len(both) - len(kept)}
    return kept, [*skipped, *(f"{path}: left out: {n} {what}" for what, n in counts.items() if n)]


def _sides(cells: Cells) -> tuple[Side, Side]:
    a, b = (
        Side(
            (cells["gpu"], cells["date"], cells[f"app_{side}"]),
            cells[f"family_{side}"],
            positive(cells, f"solo_{side}"),
            positive(cells, f"rel_{side}"),
        )
        for side in "ab"
    )
    return a, b


def _profiles(
    folder: Path, skipped: list[str], *, needed: bool = True
) -> dict[At, dict[str, float]]:
    """The counters of every profiled app; a test folder may do without the table."""

    def row(cells: Cells) -> tuple[At, dict[str, float]]:
        return (cells["gpu"], cells["date"], cells["app"]), measured_cells(cells, COUNTERS)

    try:
        rows, bad = read(folder / "gpu_coloc" / PROFILES, ["gpu", "date", "app"], row)
    except InputError as error:
        if needed:
            raise
        skipped.append(str(error))
        return {}
    skipped += bad
    return dict(rows)


def _row(
    pair: tuple[Side, Side], profiles: Mapping[At, dict[str, float]], solos: Mapping[At, float]
) -> Row:
    own, other = pair
    counters = [_counters(side.at, profiles, solos) for side in pair]
    a, b = (
        SoloProfile(key=side.at[2], features=_features(profile))
        for side, profile in zip(pair, counters, strict=True)
    )
    met = PairExample(
        job=a, beside=b, speed=own.speed, family=own.family, beside_family=other.family
    )
    raw = tuple(
        {**profile, "copy_share": _copy_share(profile)}.get(name, np.nan)
        for profile in counters
        for name in BASELINE
    )
    load, beside = (profile.get("sm_efficiency", np.nan) / 100 for profile in counters)
    return Row(met, raw, load, beside, own.at[0])


def _counters(
    at: At, profiles: Mapping[At, dict[str, float]], solos: Mapping[At, float]
) -> dict[str, float]:
    """Counters profiled there; a missing one comes from another date, then from another GPU."""
    gpu, _, app = at
    others = sorted(where for where in profiles if where[2] == app and where != at)
    counters = dict(profiles.get(at, {}))
    for where in sorted(others, key=lambda where: where[0] != gpu):
        moved = dict(profiles[where])
        if where[0] != gpu and where in solos and at in solos:
            for name in ("mean_kernel_us", "gpu_kernel_time_ms"):
                if name in moved:
                    moved[name] *= solos[where] / solos[at]
        counters = moved | counters
    return counters


def _features(counters: Mapping[str, float]) -> dict[str, float]:
    """By names that are not one profiler's."""
    sums = {"dram_gb_s": "dram", "l2_gb_s": "l2"}
    features = {
        name: counters[f"{part}_read_throughput"] + counters[f"{part}_write_throughput"]
        for name, part in sums.items()
        if {f"{part}_read_throughput", f"{part}_write_throughput"} <= set(counters)
    }
    names = {"mean_kernel_us": "kernel_us", "ipc": "ipc", "sp_tflops_on_gpu_time": "tflops"}
    features |= {new: counters[old] for old, new in names.items() if old in counters}
    share = _copy_share(counters)
    return features if np.isnan(share) else {**features, "copy_share": share}


def _copy_share(counters: Mapping[str, float]) -> float:
    """Time of copies over time of kernels; NaN where one is not known."""
    kernels = counters.get("gpu_kernel_time_ms", 0.0)
    return counters.get("gpu_memcpy_time_ms", np.nan) / kernels if kernels > 0 else float("nan")


def _solo_speeds(pairs: Sequence[tuple[Side, Side]]) -> dict[At, float]:
    return {side.at: side.solo for pair in pairs for side in pair}


def _unseen(rows: Sequence[Row], queries: Sequence[Row]) -> set[str]:
    def families(of: Sequence[Row]) -> set[str]:
        return {name for row in of for name in (row.met.family, row.met.beside_family)}

    return families(queries) - families(rows)


def _home(rows: Sequence[Row]) -> str:
    """The GPU of most of what is learned from."""
    devices: Counter[str] = Counter(row.device for row in rows)
    return devices.most_common(1)[0][0]
