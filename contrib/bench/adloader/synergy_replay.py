"""The allocator on Synergy's tables, for the live proof's report: allocator in short."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from contrib.bench.allocator.__main__ import READINGS
from contrib.bench.allocator.static import divided, gain
from contrib.bench.allocator.tables import GPUS, MIXES, mixes, read, spread

DRAWN = 300
LEAST_MEAN = 23.5  # per cent over the even split
ROUNDING = 1e-6


def replay(data: Sequence[Path]) -> dict[str, dict[str, Any]]:
    """Gains in per cent over the even split, nobody below it, by reading of the tables and mix.

    InputError where a table cannot be read.
    """
    tables = read(data)
    gains: dict[str, dict[str, Any]] = {}
    for name, reading in READINGS.items():
        curves = {model: reading(curve) for model, curve in tables.curves.items()}
        gains[name] = {}
        for mix, weights in MIXES.items():
            drawn = mixes(tables.by_class(), weights, count=DRAWN, jobs=GPUS, seed=7)
            jobs = [[curves[model] for model in models] for models in drawn]
            gains[name][mix] = spread([gain(each, divided(each, fair=True)) for each in jobs])
    return gains


def wanted(gains: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """Two targets for each mix."""
    rows = [
        (f"replay, {reading}, {mix}: {what} gain in per cent, at least", target, scores[key])
        for reading, by_mix in gains.items()
        for mix, scores in by_mix.items()
        for what, key, target in (("mean", "mean", LEAST_MEAN), ("least", "min", 0.0))
    ]
    return [
        {"what": what, "target": target, "got": got, "met": got >= target - ROUNDING}
        for what, target, got in rows
    ]
