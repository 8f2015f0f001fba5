"""Synergy's tables of CPU sensitivity: a training's rate at each number of cores of its GPU.

Columns of the file: model, cpus_per_gpu, mem_gb_per_gpu, rel_throughput (1 at three cores). Of
each core count, the usable cell with the most memory counts. Unusable cells are listed.
"""

import csv
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from statistics import mean, stdev

from slurm_ext.core.errors import InputError
from slurm_ext.policy.allocator.operating_points import OperatingPoint

NAME = "synergy_cpu_sensitivity.csv"
COLUMNS = ("model", "cpus_per_gpu", "mem_gb_per_gpu", "rel_throughput")
PLACEHOLDER = 0.1  # a whole column of it was never measured
GPUS, CORES = 8, 24  # of the node
SHARE = CORES // GPUS

MIXES = {
    "20/70/10": {"image": 0.2, "language": 0.7, "speech": 0.1},
    "33/33/33": {"image": 1.0, "language": 1.0, "speech": 1.0},
}

CLASSES = {
    "image": ("alexnet", "mobilenet", "res18", "res50", "shufflenet", "ssd"),
    "language": ("bert", "gnmt", "lstm", "transformer", "vae"),
    "speech": ("deepspeech", "m5"),
}

Curve = dict[int, float]
"""Rate by cores."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """The usable curves by model, and what was left out and why."""

    curves: Mapping[str, Curve]
    skipped: Sequence[str]

    def by_class(self) -> dict[str, list[str]]:
        """Models of each class; one that no class names is put where its curve belongs."""
        models: dict[str, list[str]] = {}
        for model in sorted(self.curves):
            models.setdefault(class_of(model, self.curves[model]), []).append(model)
        return models


def class_of(model: str, curve: Curve) -> str:
    """By name; else `language` where cores make no difference, as they make none to those here."""
    for name, models in CLASSES.items():
        if model in models:
            return name
    return "language" if max(curve.values()) <= min(curve.values()) else "image"


def by_row(curve: Curve) -> Curve:
    """Rows beyond the share as one more core each: how the targets' figures were counted."""
    beyond = sorted(cores for cores in curve if cores > SHARE)
    renamed = {cores: place for place, cores in enumerate(beyond, SHARE + 1)}
    return {renamed.get(cores, cores): rate for cores, rate in curve.items()}


def read(paths: Sequence[Path]) -> Tables:
    """Curves of one or more files (or folders that hold one of this NAME)."""
    cells: dict[str, dict[float, Curve]] = {}
    skipped: list[str] = []
    for path in paths:
        _read_file(path / NAME if path.is_dir() else path, cells, skipped)
    curves = {model: _fullest(model, by_mem, skipped) for model, by_mem in cells.items()}
    for model, curve in curves.items():
        if SHARE not in curve:
            skipped.append(f"{model}: no usable cell at {SHARE} cores, which is the even share")
    usable = {model: curve for model, curve in curves.items() if SHARE in curve}
    if not usable:
        raise InputError(", ".join(map(str, paths)), f"no usable model; columns: {COLUMNS}")
    return Tables(curves=usable, skipped=tuple(skipped))


def _read_file(path: Path, cells: dict[str, dict[float, Curve]], skipped: list[str]) -> None:
    try:
        with path.open(newline="") as file:
            rows = csv.DictReader(file)
            missing = [name for name in COLUMNS if name not in (rows.fieldnames or ())]
            if missing:
                raise InputError(str(path), f"no column {', '.join(missing)}")
            for row in rows:
                _read_row(row, f"{path.name}:{rows.line_num}", cells, skipped)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(str(path), f"cannot be read: {error}") from error


def _read_row(
    row: Mapping[str, str | None],
    where: str,
    cells: dict[str, dict[float, Curve]],
    skipped: list[str],
) -> None:
    try:
        model = str(row["model"]).strip()
        cores, memory, rate = (float(row[name] or "nan") for name in COLUMNS[1:])
    except ValueError as error:
        skipped.append(f"{where}: {error}")
        return
    if not model or not all(isfinite(value) and value > 0 for value in (cores, memory, rate)):
        skipped.append(f"{where}: a cell is missing or not above 0")
        return
    cells.setdefault(model, {}).setdefault(memory, {})[round(cores)] = rate


def _fullest(model: str, by_memory: Mapping[float, Curve], skipped: list[str]) -> Curve:
    """Each core count's rate with the most memory that was measured."""
    curve: Curve = {}
    for memory in sorted(by_memory):
        if set(by_memory[memory].values()) == {PLACEHOLDER}:
            skipped.append(f"{model}: {memory:g} GB is {PLACEHOLDER} throughout: a placeholder")
        else:
            curve |= by_memory[memory]
    return dict(sorted(curve.items()))


def mixes(
    classes: Mapping[str, Sequence[str]],
    weights: Mapping[str, float],
    *,
    count: int,
    jobs: int,
    seed: int,
) -> Iterator[list[str]]:
    """Random models by weights of their classes; those of which there is none are left out."""
    draw = random.Random(seed)
    present = [name for name in weights if classes.get(name)]
    if not present:
        raise InputError("the tables", f"no model of {', '.join(weights)}")
    for _ in range(count):
        drawn = draw.choices(present, [weights[name] for name in present], k=jobs)
        yield [draw.choice(classes[name]) for name in drawn]


def as_offers(curve: Curve) -> tuple[OperatingPoint, ...]:
    """The measured points only."""
    return tuple(
        OperatingPoint(units=n, workers=n, samples_per_s=rate) for n, rate in curve.items()
    )


def spread(values: Sequence[float]) -> dict[str, float]:
    """Mean and spread."""
    return {
        "mean": mean(values),
        "sd": stdev(values),
        "min": min(values),
        "max": max(values),
        "repeats": len(values),
    }
