"""A learnt family as a folder: `scaling.json` (names and widths) and `scaling.npz` (no pickle)."""

import hashlib
import io
import json
from collections.abc import Mapping
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slurm_ext.facts.errors import ModelError
from slurm_ext.model.scaling_family import LEVELS, Family
from slurm_ext.model.scaling_likeness import PARTS
from slurm_ext.model.scaling_terms import TERMS

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

FORMAT = 1
ABOUT, ARRAYS = "scaling.json", "scaling.npz"
MAX_BYTES = 16 << 20
WORDS = {"terms": list(TERMS), "parts": list(PARTS), "levels": list(LEVELS)}
BY_ROW = ("model", "cluster", "at", "logs", "slopes")
NAMES = (*BY_ROW, "log_batch0", "term_variances", "part_variances", "scales", "chances", "widths")


def pack(family: Family) -> dict[str, bytes]:
    """The files of a family, by name; the same family always gives the same bytes."""
    import numpy as np

    arrays = {name: getattr(family, name) for name in (*BY_ROW, "log_batch0", "scales", "chances")}
    arrays |= {"term_variances": family.terms, "part_variances": family.parts}
    arrays["widths"] = np.array([(most, *both) for most, both in family.widths])
    out = io.BytesIO()
    np.savez(out, **{name: arrays[name] for name in sorted(arrays)})
    body = {
        "format": FORMAT,
        **WORDS,
        "models": family.models,
        "clusters": family.clusters,
        "noise_sd": family.noise_sd,
        "arrays_sha256": hashlib.sha256(out.getvalue()).hexdigest(),
    }
    return {ABOUT: json.dumps(body, indent=1).encode(), ARRAYS: out.getvalue()}


def load(folder: Path) -> Family:
    """The family in `folder`. Raises ModelError naming the file and what is wrong with it."""
    about, data = _about(folder / ABOUT), _read(folder / ARRAYS)
    if hashlib.sha256(data).hexdigest() != about.get("arrays_sha256"):
        raise ModelError(f"{folder / ARRAYS}: does not match its checksum; train again")
    try:
        return _family(about, _arrays(folder / ARRAYS, data))
    except (KeyError, TypeError, ValueError) as error:
        raise ModelError(f"{folder / ABOUT}: {error!r}; train again") from None


def _family(about: Mapping[str, Any], arrays: Mapping[str, "Array"]) -> Family:
    if not 0 < float(about["noise_sd"]) < inf:
        raise ValueError(f"noise_sd = {about['noise_sd']!r}")
    return Family(
        models=tuple(str(name) for name in about["models"]),
        clusters=tuple(str(name) for name in about["clusters"]),
        noise_sd=float(about["noise_sd"]),
        terms=arrays["term_variances"],
        parts=arrays["part_variances"],
        widths=tuple((float(m), (float(i), float(b))) for m, i, b in arrays["widths"]),
        **{name: arrays[name] for name in (*BY_ROW, "log_batch0", "scales", "chances")},
    )


def _about(path: Path) -> dict[str, Any]:
    try:
        body = json.loads(_read(path))
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{path}: {error}; train again") from None
    if not isinstance(body, dict) or body.get("format") != FORMAT:
        raise ModelError(f"{path}: is of another version of dlqueue; train again")
    if any(body.get(word) != names for word, names in WORDS.items()):
        raise ModelError(f"{path}: is about other terms than this version's; train again")
    return body


def _arrays(path: Path, data: bytes) -> dict[str, "Array"]:
    import zipfile

    import numpy as np

    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as archive:
            arrays = {name: np.asarray(archive[name], dtype=np.float64) for name in archive.files}
    except (ValueError, OSError, zipfile.BadZipFile) as error:
        raise ModelError(f"{path}: is not an archive of arrays: {error}") from None
    if set(arrays) != set(NAMES) or len({len(arrays[name]) for name in BY_ROW}) != 1:
        raise ModelError(f"{path}: holds other arrays than a family has")
    if not all(np.isfinite(array).all() for name, array in arrays.items() if name != "widths"):
        raise ModelError(f"{path}: holds numbers that are not finite")
    return arrays


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror}") from None
    if len(data) > MAX_BYTES:
        raise ModelError(f"{path}: is larger than any model of dlqueue")
    return data
