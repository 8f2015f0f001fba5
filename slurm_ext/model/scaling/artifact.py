"""A fitted family as a folder: `scaling.json` (names and widths) and `scaling.npz` (no pickle)."""

from collections.abc import Mapping
from math import inf
from pathlib import Path
from typing import Any

import numpy as np

from slurm_ext.model import artifact_store
from slurm_ext.model.arrays import Array
from slurm_ext.model.scaling.family import LEVELS, Family
from slurm_ext.model.scaling.similarity import PARTS
from slurm_ext.model.scaling.terms import TERMS

FOLDER = "scaling"  # of the state folder's models
ABOUT, ARRAYS = "scaling.json", "scaling.npz"
SPEC = artifact_store.ArtifactSpec(
    about=ABOUT,
    arrays=ARRAYS,
    terms={"terms": list(TERMS), "parts": list(PARTS), "levels": list(LEVELS)},
    signed=False,
    most_bytes=16 << 20,
)
BY_ROW = ("model", "cluster", "at", "logs", "slopes")
NAMES = (*BY_ROW, "log_batch0", "term_variances", "part_variances", "scales", "chances", "widths")


def serialize(family: Family) -> dict[str, bytes]:
    """Return the files of a family by name; the same family always gives the same bytes."""
    arrays = {name: getattr(family, name) for name in (*BY_ROW, "log_batch0", "scales", "chances")}
    arrays |= {"term_variances": family.terms, "part_variances": family.parts}
    arrays["widths"] = np.array([(most, *both) for most, both in family.widths])
    body = {"models": family.models, "clusters": family.clusters, "noise_sd": family.noise_sd}
    return artifact_store.serialize(SPEC, body, arrays)


def load(folder: Path) -> Family:
    """Load the family in `folder`. Raises ModelError naming the file and the fault."""
    body, arrays = artifact_store.read(SPEC, folder)
    with artifact_store.naming_file(folder / ARRAYS):
        _check(arrays)
    with artifact_store.naming_file(folder / ABOUT):
        return _family(body, arrays)


def _family(about: Mapping[str, Any], arrays: Mapping[str, Array]) -> Family:
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


def _check(arrays: Mapping[str, Array]) -> None:
    """Raises ValueError where these are not the finite arrays of one family."""
    if set(arrays) != set(NAMES) or len({len(arrays[name]) for name in BY_ROW}) != 1:
        raise ValueError("holds other arrays than a family has")
    if not all(np.isfinite(array).all() for name, array in arrays.items() if name != "widths"):
        raise ValueError("holds numbers that are not finite")
