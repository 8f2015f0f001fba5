"""Boosted trees as arrays of a model's archive, each array under the trees' name and its own."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slurm_ext.model.boosted_trees import Forest

COLUMNS = tuple(column.name for column in fields(Forest) if column.name != "depth")
WHOLE = ("roots", "feature", "nan_left", "left", "right")


def forests_to_arrays(forests: Mapping[str, Forest]) -> dict[str, NDArray[Any]]:
    """The arrays of all forests; `depth` is not among them."""
    return {
        f"{name}_{column}": getattr(forest, column)
        for name, forest in forests.items()
        for column in COLUMNS
    }


def forest_from_arrays(
    arrays: Mapping[str, NDArray[Any]], name: str, *, depth: int, width: int
) -> Forest:
    """The forest of that name, which sees rows of `width` features.

    Raises KeyError where an array is missing, ValueError where one does not fit: every index is
    checked, because a torn array must not read beyond another.
    """
    columns: dict[str, Any] = {
        column: arrays[f"{name}_{column}"].astype(np.int64 if column in WHOLE else np.float64)
        for column in COLUMNS
    }
    nodes = len(columns["value"])
    same = {columns[column].shape for column in COLUMNS if column != "roots"} == {(nodes,)}
    if not (same and _inside(columns, nodes, width) and 0 <= depth < nodes):
        raise ValueError(f"trees {name!r} do not fit together")
    if not np.isfinite(columns["value"]).all():
        raise ValueError(f"trees {name!r} hold numbers that are not finite")
    return Forest(depth=depth, **columns)


def _inside(columns: Mapping[str, NDArray[Any]], nodes: int, width: int) -> bool:
    """True if there is a tree, and all its branches and features exist."""
    ways = np.concatenate([columns["roots"], columns["left"], columns["right"]])
    if nodes == 0 or len(columns["roots"]) == 0:
        return False
    inside = columns["feature"].min() >= -1 and columns["feature"].max() < width
    return bool(inside and ways.min() >= 0 and ways.max() < nodes)
