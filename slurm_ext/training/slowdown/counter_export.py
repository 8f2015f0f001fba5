"""Packs a CounterModel for model/, if what is read back answers as the model itself."""

import json
from typing import Any

import numpy as np

from slurm_ext.core.errors import ModelError
from slurm_ext.core.gpu_sharing import SoloProfile
from slurm_ext.model.slowdown.counter_artifact import from_json, to_json
from slurm_ext.model.slowdown.counter_model import CounterModel

CLOSE = 1e-6  # of speeds
MOST_ASKED = 12


def export(model: CounterModel) -> dict[str, Any]:
    """The packed model. Raises ModelError where it is not the same once it went through JSON."""
    try:
        body: dict[str, Any] = json.loads(json.dumps(to_json(model), allow_nan=False))
    except ValueError as error:
        raise ModelError(f"a model from counters: {error}; not exported") from None
    off = difference(model, from_json(body))
    if not off <= CLOSE:
        raise ModelError(f"a model from counters: read back, it is {off:.1g} off; not exported")
    return body


def difference(ours: CounterModel, other: CounterModel) -> float:
    """Largest difference of speeds and interval ends, for known jobs, unknown ones and gaps."""
    columns = ours.scale.columns
    jobs = [
        SoloProfile(key=key, features=_features(model=ours, row=row))
        for row, key in list(enumerate(ours.jobs.keys))[:MOST_ASKED]
    ]
    jobs += [SoloProfile(key="", features={columns[0].name: 1.0}), SoloProfile(key="")]
    pairs = [(a, b) for a in jobs for b in jobs]
    predicted = [
        model.speeds(pairs, device) for model in (ours, other) for device in (None, "another")
    ]
    return max(
        float(np.abs(getattr(left, name) - getattr(right, name)).max())
        for left, right in (predicted[::2], predicted[1::2])
        for name in ("mean", "low", "high")
    )


def _features(*, model: CounterModel, row: int) -> dict[str, float]:
    """Some counters near the job's own; ratios are left out, so that gaps are tried as well."""
    raw = model.jobs.places.at[row] * model.scale.spread + model.scale.centre
    return {
        column.name: float(value if column.offset is None else np.exp(value) - column.offset)
        for column, value in zip(model.scale.columns, raw, strict=True)
        if column.per is None
    }
