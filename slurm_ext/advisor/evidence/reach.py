"""Chains of rows by key as arrays: which rows are reached from their heads, and rows moved. Pure.

A chain is a key's newest row and, by `prev`, the one before each; -1 ends it.
"""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

Keys = npt.NDArray[np.int64]
Rows = npt.NDArray[np.int32]
Chains = tuple[Keys, Rows]
"""Keys, sorted, and the newest row of each."""


def chains_of(heads: Mapping[int, int]) -> Chains:
    """The chains of a dict of heads."""
    keys = np.fromiter(heads.keys(), np.int64, len(heads))
    order = np.argsort(keys)
    return keys[order], np.fromiter(heads.values(), np.int32, len(heads))[order]


def merged(older: Chains, newer: Chains) -> Chains:
    """Both; where both have a key, the newer head."""
    if not len(newer[0]):
        return older
    if not len(older[0]):
        return newer
    left = ~np.isin(older[0], newer[0], assume_unique=True)
    keys = np.concatenate((older[0][left], newer[0]))
    order = np.argsort(keys, kind="stable")
    return keys[order], np.concatenate((older[1][left], newer[1]))[order]


def found(chains: Chains, keys: Keys) -> Rows:
    """The head of each of these keys; -1 where it has none."""
    known, heads = chains
    if not len(known):
        return np.full(len(keys), -1, np.int32)
    at = np.minimum(known.searchsorted(keys), len(known) - 1)
    return np.where(known[at] == keys, heads[at], np.int32(-1)).astype(np.int32)


def reached(needed: npt.NDArray[np.bool_], prev: Rows, heads: Rows, most: int) -> None:
    """Mark as `needed` the `most` newest rows of each chain."""
    rows = heads
    for _ in range(most):
        if not len(rows):
            return
        needed[rows] = True
        rows = prev[rows]
        rows = rows[rows >= 0]


def renumbered(rows: Rows, kept: Rows) -> Rows:
    """New numbers of rows when only `kept` (sorted) are left; -1 for those that are not."""
    if not len(kept):
        return np.full(len(rows), -1, np.int32)
    at = np.minimum(kept.searchsorted(rows), len(kept) - 1)
    return np.where(kept[at] == rows, at, -1).astype(np.int32)
