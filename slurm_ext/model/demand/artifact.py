"""A demand model as a folder: `demand.json` (shapes, shifts) and `demand.npz` (no pickle)."""

from collections.abc import Mapping
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slurm_ext.model import artifact_store
from slurm_ext.model.boosted_trees import Forest
from slurm_ext.model.demand.model import (
    FEATURES,
    HORIZONS,
    LEVELS,
    PEAK_SLOTS,
    DemandModel,
    RidgeLine,
)
from slurm_ext.model.forest_arrays import forest_from_arrays, forests_to_arrays

ABOUT, ARRAYS = "demand.json", "demand.npz"
SPEC = artifact_store.ArtifactSpec(
    about=ABOUT,
    arrays=ARRAYS,
    terms={"features": list(FEATURES), "horizons": list(HORIZONS), "peak_slots": PEAK_SLOTS},
    signed=False,
)
LINE = ("centre", "scale", "weights")
Arrays = Mapping[str, NDArray[Any]]


def serialize(model: DemandModel) -> dict[str, bytes]:
    """Return the files by name; the same model always gives the same bytes."""
    forests = {f"trees{horizon}": forest for horizon, forest in model.trees.items()}
    forests |= {f"peak{level}": forest for level, forest in model.peaks.items()}
    lines = {
        f"line{horizon}_{part}": getattr(line, part)
        for horizon, line in model.lines.items()
        for part in LINE
    }
    body = {
        "starts": {str(horizon): line.start for horizon, line in model.lines.items()},
        "shifts": {str(level): shift for level, shift in model.shifts.items()},
        "depths": {name: forest.depth for name, forest in forests.items()},
    }
    return artifact_store.serialize(SPEC, body, {**forests_to_arrays(forests), **lines})


def load(folder: Path) -> DemandModel:
    """Load the model in `folder`. Raises ModelError naming the file and the fault."""
    return artifact_store.load(SPEC, folder, _model)


def _model(body: Mapping[str, Any], arrays: Arrays) -> DemandModel:
    depths = body["depths"]
    return DemandModel(
        lines={
            horizon: _line(arrays, horizon, float(body["starts"][str(horizon)]))
            for horizon in HORIZONS
        },
        trees={horizon: _trees(arrays, f"trees{horizon}", depths) for horizon in HORIZONS},
        peaks={level: _trees(arrays, f"peak{level}", depths) for level in LEVELS},
        shifts={level: _finite(float(body["shifts"][str(level)])) for level in LEVELS},
    )


def _line(arrays: Arrays, horizon: int, start: float) -> RidgeLine:
    centre, scale, weights = (
        np.asarray(arrays[f"line{horizon}_{name}"], dtype=np.float64) for name in LINE
    )
    whole = np.stack([centre, scale, weights])
    if whole.shape != (3, len(FEATURES)) or not np.isfinite(whole).all() or not (scale > 0).all():
        raise ValueError(f"the line of {horizon} slots does not fit")
    return RidgeLine(centre, scale, weights, _finite(start))


def _trees(arrays: Arrays, name: str, depths: Mapping[str, Any]) -> Forest:
    return forest_from_arrays(arrays, name, depth=int(depths[name]), width=len(FEATURES))


def _finite(number: float) -> float:
    if not isfinite(number):
        raise ValueError("holds a number that is not finite")
    return number
