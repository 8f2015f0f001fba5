"""A demand model as a folder: `demand.json` (shapes, shifts) and `demand.npz` (no pickle)."""

import hashlib
import io
import json
import zipfile
from collections.abc import Mapping
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slurm_ext.facts.errors import ModelError
from slurm_ext.model.demand import FEATURES, HORIZONS, LEVELS, PEAK_SLOTS, Demand, Linear
from slurm_ext.model.duration_trees import Forest

FORMAT = 1
ABOUT, ARRAYS = "demand.json", "demand.npz"
MAX_BYTES = 64 << 20
COLUMNS = ("roots", "feature", "threshold", "nan_left", "left", "right", "value")
WHOLE = ("roots", "feature", "nan_left", "left", "right")
Arrays = dict[str, NDArray[Any]]


def pack(model: Demand) -> dict[str, bytes]:
    """The files, by name; the same model always gives the same bytes."""
    forests, out = _forests(model), io.BytesIO()
    arrays: Arrays = {
        f"{name}_{column}": getattr(forest, column)
        for name, forest in forests.items()
        for column in COLUMNS
    }
    for horizon, line in model.lines.items():
        arrays |= {
            f"line{horizon}_{part}": getattr(line, part) for part in ("centre", "scale", "weights")
        }
    np.savez(out, **arrays)  # type: ignore[arg-type]  # numpy's stub confuses ** with allow_pickle
    body = {
        "format": FORMAT,
        "features": list(FEATURES),
        "horizons": list(HORIZONS),
        "peak_slots": PEAK_SLOTS,
        "starts": {str(horizon): line.start for horizon, line in model.lines.items()},
        "shifts": {str(level): shift for level, shift in model.shifts.items()},
        "depths": {name: forest.depth for name, forest in forests.items()},
        "arrays_sha256": hashlib.sha256(out.getvalue()).hexdigest(),
    }
    return {ABOUT: json.dumps(body, indent=1).encode(), ARRAYS: out.getvalue()}


def load(folder: Path) -> Demand:
    """The model in `folder`. Raises ModelError naming the file and what is wrong with it."""
    try:
        data = _read(folder / ARRAYS)
        body = json.loads(_read(folder / ABOUT))
        same = (list(FEATURES), list(HORIZONS), PEAK_SLOTS)
        if body["format"] != FORMAT or same != tuple(
            body[name] for name in ("features", "horizons", "peak_slots")
        ):
            raise ValueError("is of another version of dlqueue")
        if hashlib.sha256(data).hexdigest() != body["arrays_sha256"]:
            raise ValueError(f"{ARRAYS} does not match its checksum")
        with np.load(io.BytesIO(data), allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        return _model(body, arrays)
    except OSError as error:
        raise ModelError(f"{folder}: cannot be read: {error.strerror}") from None
    except (AttributeError, LookupError, TypeError, ValueError, RecursionError) as error:
        raise ModelError(f"{folder / ABOUT}: {error}; train again") from None
    except zipfile.BadZipFile as error:
        raise ModelError(f"{folder / ARRAYS}: {error}; train again") from None


def _forests(model: Demand) -> dict[str, Forest]:
    means = {f"trees{horizon}": forest for horizon, forest in model.trees.items()}
    return means | {f"peak{level}": forest for level, forest in model.peaks.items()}


def _model(body: Mapping[str, Any], arrays: Arrays) -> Demand:
    depths = body["depths"]
    return Demand(
        lines={one: _line(arrays, one, float(body["starts"][str(one)])) for one in HORIZONS},
        trees={one: _forest(arrays, f"trees{one}", int(depths[f"trees{one}"])) for one in HORIZONS},
        peaks={one: _forest(arrays, f"peak{one}", int(depths[f"peak{one}"])) for one in LEVELS},
        shifts={one: _finite(float(body["shifts"][str(one)])) for one in LEVELS},
    )


def _line(arrays: Arrays, horizon: int, start: float) -> Linear:
    centre, scale, weights = (
        np.asarray(arrays[f"line{horizon}_{name}"], dtype=np.float64)
        for name in ("centre", "scale", "weights")
    )
    whole = np.stack([centre, scale, weights])
    if whole.shape != (3, len(FEATURES)) or not np.isfinite(whole).all() or not (scale > 0).all():
        raise ValueError(f"the line of {horizon} slots does not fit")
    return Linear(centre, scale, weights, _finite(start))


def _forest(arrays: Arrays, name: str, depth: int) -> Forest:
    """Every index is checked: a torn array must not read beyond another."""
    told: dict[str, Any] = {column: arrays[f"{name}_{column}"] for column in COLUMNS}
    for column in COLUMNS:
        told[column] = told[column].astype(np.int64 if column in WHOLE else np.float64)
    nodes = len(told["value"])
    same = {told[column].shape for column in COLUMNS if column != "roots"} == {(nodes,)}
    ways = np.concatenate([told["roots"], told["left"], told["right"]])
    inside = nodes > 0 and len(told["roots"]) > 0 and ways.min() >= 0 and ways.max() < nodes
    known = inside and told["feature"].min() >= -1 and told["feature"].max() < len(FEATURES)
    if not (same and known and 0 <= depth < nodes + 1 and np.isfinite(told["value"]).all()):
        raise ValueError(f"trees {name!r} do not fit together")
    return Forest(depth=depth, **told)


def _finite(number: float) -> float:
    if not isfinite(number):
        raise ValueError("holds a number that is not finite")
    return number


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise ValueError(f"{path.name} is larger than any model of dlqueue")
    return data
