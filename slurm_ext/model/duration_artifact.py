"""A duration model as a folder: `duration.json` (plan, start, bounds) and `duration.npz`."""

import hashlib
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slurm_ext.facts.errors import ModelError
from slurm_ext.model.duration import Durations
from slurm_ext.model.duration_bounds import Bounds
from slurm_ext.model.duration_memory import WHAT
from slurm_ext.model.duration_state import Plan
from slurm_ext.model.duration_trees import Forest

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Arrays = dict[str, NDArray[np.float64] | NDArray[np.int64]]

FORMAT = 1
ABOUT, ARRAYS = "duration.json", "duration.npz"
MAX_BYTES = 64 << 20
FORESTS = ("mean", "plain", "low", "high")
COLUMNS = tuple(one.name for one in fields(Forest) if one.name != "depth")
WHOLE = ("roots", "feature", "nan_left", "left", "right")


@dataclass(frozen=True, slots=True)
class Artifact:
    """What is served: the model, where its bounds start, and what training said of it.

    `about` may hold `window_s`: the first submission and the last end that it learnt from.
    """

    durations: Durations
    bounds: Bounds
    about: Mapping[str, Any] = field(default_factory=dict)


def pack(artifact: Artifact) -> dict[str, bytes]:
    """The files, by name; the same model always gives the same bytes."""
    import numpy as np

    model, out = artifact.durations, io.BytesIO()
    np.savez(
        out,
        **{
            f"{name}_{column}": getattr(getattr(model, name), column)
            for name in FORESTS
            for column in COLUMNS
        },
    )
    body = {
        "format": FORMAT,
        "about": dict(artifact.about),
        "what": list(WHAT),
        "levels": model.plan.levels,
        "numbers": model.plan.numbers,
        "start": model.start,
        "depths": {name: getattr(model, name).depth for name in FORESTS},
        "bounds": {"low": artifact.bounds.low, "high": artifact.bounds.high},
        "arrays_sha256": hashlib.sha256(out.getvalue()).hexdigest(),
    }
    return {ABOUT: json.dumps(body, indent=1).encode(), ARRAYS: out.getvalue()}


def load(folder: Path) -> Artifact:
    """The model in `folder`. Raises ModelError naming the file and what is wrong with it."""
    data = _read(folder / ARRAYS)
    try:
        body = json.loads(_read(folder / ABOUT))
        if body["format"] != FORMAT or body["what"] != list(WHAT):
            raise ValueError("is of another version of dlqueue")
        if hashlib.sha256(data).hexdigest() != body["arrays_sha256"]:
            raise ValueError(f"{ARRAYS} does not match its checksum")
        return _artifact(body, _arrays(data))
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise ModelError(f"{folder / ABOUT}: {error}; train again") from None


def _artifact(body: dict[str, Any], arrays: "Arrays") -> Artifact:
    plan = Plan(
        levels=tuple(tuple(str(name) for name in level) for level in body["levels"]),
        numbers=tuple(str(name) for name in body["numbers"]),
    )
    width = len(plan.features)
    forests = {name: _forest(arrays, name, int(body["depths"][name]), width) for name in FORESTS}
    start, bounds = float(body["start"]), Bounds()
    low, high = ([float(at) for at in body["bounds"][side]] for side in ("low", "high"))
    if not all(map(isfinite, (start, *low, *high))) or not len(low) == len(high) == len(bounds.low):
        raise ValueError("holds no usable start or bounds")
    bounds.low, bounds.high = low, high
    return Artifact(Durations(plan, start, **forests), bounds, dict(body.get("about", {})))


def _forest(arrays: "Arrays", name: str, depth: int, width: int) -> Forest:
    """Every index is checked: a torn array must not read beyond another."""
    import numpy as np

    told: dict[str, Any] = {column: arrays[f"{name}_{column}"] for column in COLUMNS}
    nodes = len(told["value"])
    for column in WHOLE:
        told[column] = told[column].astype(np.int64)
    same = {len(told[column]) for column in COLUMNS if column != "roots"} == {nodes}
    ways = np.concatenate([told["roots"], told["left"], told["right"]])
    inside = nodes > 0 and ways.min() >= 0 and ways.max() < nodes and told["feature"].max() < width
    if not (same and inside and told["feature"].min() >= -1 and 0 <= depth < nodes):
        raise ValueError(f"trees {name!r} do not fit together")
    if not np.isfinite(told["value"]).all():
        raise ValueError(f"trees {name!r} hold numbers that are not finite")
    return Forest(depth=depth, **told)


def _arrays(data: bytes) -> "Arrays":
    import zipfile

    import numpy as np

    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except (OSError, zipfile.BadZipFile) as error:
        raise ValueError(f"{ARRAYS} is not an archive of arrays: {error}") from None


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror}") from None
    if len(data) > MAX_BYTES:
        raise ModelError(f"{path}: is larger than any model of dlqueue")
    return data
