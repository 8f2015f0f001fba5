"""A CounterModel as plain values for a JSON file: the measured pairs, not the weights.

Weights are computed again when it is read (numpy, the cube of the pairs met), so that the file is
small and holds nothing that a reader could not check.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from slurm_ext.core.errors import ModelError
from slurm_ext.model.arrays import Array
from slurm_ext.model.artifact_store import positive
from slurm_ext.model.slowdown.counter_kernel import CounterKernel
from slurm_ext.model.slowdown.counter_model import CounterJobs, CounterModel, PairObservations, view
from slurm_ext.model.slowdown.features import CounterColumn, Positions, Scale

MOST_MET = 5000  # more is no model of ours: reading it would cost minutes
_PLAIN = ("device", "top", "other_device")


def to_json(model: CounterModel) -> dict[str, Any]:
    """The same model always gives the same values."""
    return {
        **{name: getattr(model, name) for name in _PLAIN},
        "columns": [[column.name, column.offset, column.per] for column in model.scale.columns],
        "centre": model.scale.centre.tolist(),
        "spread": model.scale.spread.tolist(),
        "correlation": model.scale.correlation.tolist(),
        "likeness": asdict(model.likeness),
        "keys": list(model.jobs.keys),
        "at": model.jobs.places.at.tolist(),
        "variance": model.jobs.places.variance.tolist(),
        "met": [rows.tolist() for rows in model.met.rows],
        "log_odds": model.met.log_odds.tolist(),
        "noise_var": model.met.noise_var.tolist(),
        "views": [list(entry.columns) for entry in model.views],
        "references": dict(sorted(model.references.items())),
        "widths": list(model.widths),
    }


def from_json(body: Mapping[str, Any]) -> CounterModel:
    """The model that was packed. Raises ModelError where `body` is none."""
    try:
        return _model(body)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise ModelError(f"a model from counters: {error!r}; train again") from None


def _model(body: Mapping[str, Any]) -> CounterModel:
    columns = tuple(_column(*column) for column in body["columns"])
    width, keys = len(columns), tuple(str(key) for key in body["keys"])
    places = Positions(
        *(_numbers(body[name], (len(keys), width), name) for name in ("at", "variance"))
    )
    likeness, jobs = CounterKernel(**body["likeness"]), CounterJobs(keys, places)
    if not all(isinstance(value, float) and value > 0 for value in asdict(likeness).values()):
        raise ValueError(f"likeness = {body['likeness']!r}")
    met = _met(body, len(keys))
    below, above = _numbers(body["widths"], (2,), "widths").tolist()
    return CounterModel(
        device=str(body["device"]),
        scale=Scale(
            columns,
            _numbers(body["centre"], (width,), "centre"),
            _above_0(_numbers(body["spread"], (width,), "spread"), "spread"),
            _numbers(body["correlation"], (width, width), "correlation"),
        ),
        likeness=likeness,
        jobs=jobs,
        met=met,
        views=tuple(view(likeness, jobs, met, _view(entry, width)) for entry in body["views"]),
        top=positive(body["top"]),
        references={str(key): positive(value) for key, value in body["references"].items()},
        widths=(positive(below), positive(above)),
        other_device=positive(body["other_device"]),
    )


def _met(body: Mapping[str, Any], jobs: int) -> PairObservations:
    odds = np.asarray(body["log_odds"], dtype=np.float64)
    if not 0 < len(odds) <= MOST_MET:
        raise ValueError(f"{len(odds)} pairs met")
    rows = _numbers(body["met"], (2, len(odds)), "met").astype(np.int64)
    if rows.min() < 0 or rows.max() >= jobs:
        raise ValueError("met: a row that is no job")
    noise = _above_0(_numbers(body["noise_var"], (len(odds),), "noise_var"), "noise_var")
    return PairObservations((rows[0], rows[1]), _numbers(odds, (len(odds),), "log_odds"), noise)


def _column(name: str, offset: float | None, per: str | None) -> CounterColumn:
    return CounterColumn(str(name), None if offset is None else float(offset), per)


def _view(columns: Sequence[int], width: int) -> tuple[int, ...]:
    if not columns or not all(isinstance(place, int) and 0 <= place < width for place in columns):
        raise ValueError(f"a view on columns {columns!r}")
    return tuple(columns)


def _numbers(value: Any, shape: tuple[int, ...], name: str) -> Array:
    array = np.asarray(value, dtype=np.float64)
    if array.shape != shape or not np.isfinite(array).all():
        raise ValueError(f"{name}: expected {shape} finite numbers")
    return array


def _above_0(array: Array, name: str) -> Array:
    if not (array > 0).all():
        raise ValueError(f"{name}: expected numbers above 0")
    return array
