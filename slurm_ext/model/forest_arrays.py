"""Boosted trees as arrays of a model's archive, each array under the trees' name and its own."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slurm_ext.model.boosted_trees import Forest

COLUMNS = tuple(one.name for one in fields(Forest) if one.name != "depth")
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
    told: dict[str, Any] = {
        column: arrays[f"{name}_{column}"].astype(np.int64 if column in WHOLE else np.float64)
        for column in COLUMNS
    }
    nodes = len(told["value"])
    same = {told[column].shape for column in COLUMNS if column != "roots"} == {(nodes,)}
    if not (same and _inside(told, nodes, width) and 0 <= depth < nodes):
        raise ValueError(f"trees {name!r} do not fit together")
    if not np.isfinite(told["value"]).all():
        raise ValueError(f"trees {name!r} hold numbers that are not finite")
    return Forest(depth=depth, **told)


def _inside(told: Mapping[str, NDArray[Any]], nodes: int, width: int) -> bool:
    """Whether there is a tree, and all its ways lead to nodes and all its features exist."""
    ways = np.concatenate([told["roots"], told["left"], told["right"]])
    if nodes == 0 or len(told["roots"]) == 0:
        return False
    known = told["feature"].min() >= -1 and told["feature"].max() < width
    return bool(known and ways.min() >= 0 and ways.max() < nodes)
