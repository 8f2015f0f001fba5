"""Boosted trees from plain arrays: the sum of one leaf of every tree, for many rows at once."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]
    Whole = NDArray[np.int64]

CELLS = 1 << 20  # of rows x trees at once: 8 MiB an array
FEW = 4  # rows: up to so many, asking every node once costs less than a walk down from the roots


@dataclass(frozen=True, eq=False, slots=True)
class Forest:
    """All nodes of all trees in one list; `feature` is -1 in a leaf, whose children are itself.

    A row goes left where its feature is at most `threshold`; NaN goes left where `nan_left` is 1.
    """

    roots: "Whole"
    depth: int
    feature: "Whole"
    threshold: "Array"
    nan_left: "Whole"
    left: "Whole"
    right: "Whole"
    value: "Array"

    def __call__(self, rows: "Array") -> "Array":
        """One number a row."""
        if len(rows) <= FEW:
            return np.array([self._one(row) for row in rows])
        answers = np.zeros(len(rows))
        step = max(1, CELLS // max(1, len(self.roots)))
        for start in range(0, len(rows), step):
            answers[start : start + step] = self._some(rows[start : start + step])
        return answers

    def _one(self, row: "Array") -> float:
        values = row[self.feature]
        goes_left = values <= self.threshold
        goes_left |= np.isnan(values) & (self.nan_left == 1)
        ways = np.where(goes_left, self.left, self.right)
        at = self.roots
        for _ in range(self.depth):
            at = ways[at]
        return float(self.value[at].sum())

    def _some(self, rows: "Array") -> "Array":
        at = np.broadcast_to(self.roots, (len(rows), len(self.roots))).copy()
        which = np.arange(len(rows))[:, None]
        for _ in range(self.depth):
            values = rows[
                which, self.feature[at]
            ]  # a leaf's -1 reads any column: both ways lead on
            left = values <= self.threshold[at]
            left |= np.isnan(values) & (self.nan_left[at] == 1)
            at = np.where(left, self.left[at], self.right[at])
        total: Array = self.value[at].sum(axis=1)
        return total
