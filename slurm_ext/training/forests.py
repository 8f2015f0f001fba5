"""Boosted trees fitted with LightGBM, as the arrays that `model/boosted_trees.py` evaluates."""

from typing import Any

import numpy as np

from slurm_ext.core.errors import Extra, ModelError
from slurm_ext.model.arrays import Array
from slurm_ext.model.boosted_trees import Forest
from slurm_ext.model.freed_memory import give_back

CLOSE = 1e-6
COMMON: dict[str, Any] = {
    "learning_rate": 0.03,
    "bagging_freq": 1,
    "extra_trees": True,
    "lambda_l2": 5.0,
    "seed": 0,
    "deterministic": True,
    "force_row_wise": True,
    "verbosity": -1,
}


def fit_forest(
    rows: Array,
    target: Array,
    params: dict[str, Any],
    rounds: int,
    weights: Array | None = None,
) -> Forest:
    """Fit a forest. Raises ModelError if its arrays do not answer as LightGBM does."""
    with Extra("train"):
        import lightgbm

    data = lightgbm.Dataset(rows, target, weight=weights, params={"verbosity": -1})
    booster = lightgbm.train({**COMMON, **params}, data, rounds)
    forest = forest_from_dump(booster.dump_model())
    some = rows[:: max(1, len(rows) // 500)]
    off = float(np.abs(booster.predict(some) - forest(some)).max())
    if not off <= CLOSE:
        raise ModelError(f"trees from arrays answer {off:.1g} away from LightGBM's")
    del data, booster
    give_back()
    return forest


def forest_from_dump(dump: dict[str, Any]) -> Forest:
    """A LightGBM model (`dump_model`) as arrays."""
    nodes: list[tuple[int, float, int, int, int, float]] = []
    depths: list[int] = []
    roots = [_node(tree["tree_structure"], nodes, depths, 0) for tree in dump["tree_info"]]
    feature, threshold, nan_left, left, right, value = zip(*nodes, strict=True)
    return Forest(
        roots=np.array(roots, dtype=np.int64),
        depth=max(depths),
        feature=np.array(feature, dtype=np.int64),
        threshold=np.array(threshold),
        nan_left=np.array(nan_left, dtype=np.int64),
        left=np.array(left, dtype=np.int64),
        right=np.array(right, dtype=np.int64),
        value=np.array(value),
    )


def _node(
    node: dict[str, Any],
    nodes: list[tuple[int, float, int, int, int, float]],
    depths: list[int],
    depth: int,
) -> int:
    at = len(nodes)
    if "leaf_value" in node:
        nodes.append((-1, 0.0, 0, at, at, float(node["leaf_value"])))
        depths.append(depth)
        return at
    nodes.append((-1, 0.0, 0, at, at, 0.0))
    left = _node(node["left_child"], nodes, depths, depth + 1)
    right = _node(node["right_child"], nodes, depths, depth + 1)
    threshold = float(node["threshold"])
    # If training saw no NaN, LightGBM treats one as 0 (missing_type None).
    nan_left = node["default_left"] if node["missing_type"] == "NaN" else threshold >= 0
    nodes[at] = (int(node["split_feature"]), threshold, int(nan_left), left, right, 0.0)
    return at
