"""Samples in a batch that the dataset or the user's own code made: torch did not count them."""

from __future__ import annotations

from itertools import islice
from typing import Any, Iterable

_MOST_PARTS = 16


def rows(batch: Any) -> int | None:
    """Samples by the first dimension on which all parts agree; None where they do not.

    A number beside a tensor is the label of one sample, and vectors alone may be one sample's
    features or tokens: both are None, which counts as one sample.
    """
    graphs = getattr(batch, "num_graphs", None)  # torch_geometric's batches are one large graph
    if isinstance(graphs, int):
        return graphs
    if isinstance(batch, list) and batch and isinstance(batch[0], (tuple, dict)):
        return len(batch)  # samples that nobody put together
    sizes = [_size(part) for part in islice(_parts(batch), _MOST_PARTS)]
    first = {size for size, _ in sizes if size is not None}
    several = any(whole for _, whole in sizes)
    return first.pop() or None if several and len(first) == 1 else None


def _parts(batch: Any) -> Iterable[Any]:
    if isinstance(batch, (list, tuple)):
        return batch
    return batch.values() if hasattr(batch, "values") and hasattr(batch, "keys") else (batch,)


def _size(part: Any) -> tuple[int | None, bool]:
    """First dimension (None: it has none to tell), and True if a row is more than a number."""
    shape = getattr(part, "shape", None)
    if isinstance(shape, tuple):
        return (int(shape[0]), len(shape) > 1) if shape else (0, False)
    if isinstance(part, (list, tuple)):
        return len(part), bool(part) and not isinstance(part[0], (int, float))
    return (0, False) if isinstance(part, (int, float)) else (None, False)
