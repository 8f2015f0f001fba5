"""Arrays in models and training: their types, and what several models ask of them."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Rows = NDArray[np.int64]


def weighted_quantile(values: Array, weights: Array, level: float) -> float:
    """Return a quantile, interpolated between values; with equal weights it is numpy's own."""
    order = np.argsort(values, kind="stable")
    sorted_weights = weights[order]
    reached = np.cumsum(sorted_weights) - sorted_weights / 2  # by half of a value: its middle
    span = reached[-1] - reached[0]
    places = (reached - reached[0]) / span if span > 0 else np.zeros(len(sorted_weights))
    return float(np.interp(level, places, values[order]))
