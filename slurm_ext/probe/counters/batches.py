"""Samples and bytes of a batch, as it reaches the training's loop."""

from __future__ import annotations

import sys
from collections import UserDict
from itertools import islice
from typing import Any, Iterable, Iterator

_MOST_PARTS = 16  # of a batch, that its samples are counted by
_COLOURS = 1, 3, 4
_MOST_OF_ONE = 3  # dimensions that one sample is sure to have: a picture's
_MOSTLY = 0.9  # of the batches tell their samples: so many do in all


def tensor_bytes(data: Any) -> int:
    """Bytes of the tensors in a batch, as far as plain containers hold them."""
    return sum(_sizes(data))


def _sizes(data: Any, depth: int = 4) -> Iterator[int]:
    """Bytes of each tensor in a batch; Hugging Face's batches are a `UserDict`."""
    if isinstance(data, sys.modules["torch"].Tensor):
        yield int(data.element_size() * data.nelement())
    elif depth and isinstance(data, (list, tuple, dict, UserDict)):
        for one in data if isinstance(data, (list, tuple)) else data.values():
            yield from _sizes(one, depth - 1)


def rows(batch: Any) -> int | None:
    """Samples by the first dimension on which all parts agree; None where they do not.

    A number beside a tensor is the label of one sample, and vectors alone may be one sample's
    features or tokens: both are None, which counts as one sample.
    """
    count = _of_graph(batch)
    if count is not None:
        return count
    if isinstance(batch, list) and batch and isinstance(batch[0], (tuple, dict)):
        return len(batch)  # samples that nobody put together
    sizes = [_size_of(part) for part in islice(_parts_of(batch), _MOST_PARTS)]
    first = {size for size, _ in sizes if size is not None}
    several = any(whole for _, whole in sizes)
    return first.pop() or None if several and len(first) == 1 else None


def are_uncountable(batch: Any) -> bool:
    """True for one without `rows` that has several samples: nobody can tell which count it is.

    Parts have other first dimensions (a subgraph's nodes, and its seeds). A picture beside another
    part is one sample: its first dimension are colours. Of four dimensions beside one number, the
    first may be pictures or a sample's own.
    """
    if getattr(batch, "edge_index", None) is not None:
        return True
    sizes = [_size_of(part) for part in islice(_parts_of(batch), _MOST_PARTS)]
    first = {size for size, _ in sizes if size is not None}
    if 0 in first:
        return any(len(getattr(part, "shape", ())) > _MOST_OF_ONE for part in _parts_of(batch))
    return len(first) > 1 and not any(map(_is_picture, _parts_of(batch)))


def _of_graph(batch: Any) -> int | None:
    """Graphs or seeds of a batch that is one large graph, as its library tells them."""
    graphs = getattr(batch, "num_graphs", None)  # torch_geometric's
    if isinstance(graphs, int):
        return graphs
    seeds = getattr(batch, "batch_size", None)  # of its samplers of neighbours
    if isinstance(seeds, int) and getattr(batch, "edge_index", None) is not None:
        return seeds
    blocks = batch[-1] if isinstance(batch, (list, tuple)) and batch else None
    if isinstance(blocks, list) and blocks and hasattr(blocks[-1], "num_dst_nodes"):
        return int(blocks[-1].num_dst_nodes())  # DGL's
    return None


def _is_picture(part: Any) -> bool:
    shape = getattr(part, "shape", ())
    return isinstance(shape, tuple) and len(shape) == 3 and shape[0] in _COLOURS


def _parts_of(batch: Any) -> Iterable[Any]:
    if isinstance(batch, (list, tuple)):
        return batch
    return batch.values() if hasattr(batch, "values") and hasattr(batch, "keys") else (batch,)


def _size_of(part: Any) -> tuple[int | None, bool]:
    """First dimension (None: it has none to tell), and True if a row is more than a number."""
    shape = getattr(part, "shape", None)
    if isinstance(shape, tuple):
        return (int(shape[0]), len(shape) > 1) if shape else (0, False)
    if isinstance(part, (list, tuple)):
        return len(part), bool(part) and not isinstance(part[0], (int, float))
    return (0, False) if isinstance(part, (int, float)) else (None, False)


class BatchCounts:
    """Samples and bytes of a pass's batches, as far as the batches tell them.

    Where it is known how many samples a `full` batch has, none may tell more, and one as many.
    One that the dataset makes `whole` has as many as it shows, and may show that nobody knows.
    """

    def __init__(self, full: int | None = None, whole: bool = False) -> None:
        self._whole = whole
        self._rows = [0, 0]  # samples counted, and the batches that they came in
        self._uncountable = 0  # batches
        self._full, self._most = full, 0
        self._weighed = [0, 0, 0]  # batches, and bytes and tensors in them

    def count_rows(self, batch: Any) -> None:
        """Count the samples of a batch, where it tells them."""
        try:
            size = rows(batch)
            self._uncountable += size is None and are_uncountable(batch)
        except Exception:  # a batch of the user's own kind
            size = None
        if size is not None:
            self._rows[0] += size
            self._rows[1] += 1
            self._most = max(self._most, size)

    def samples(self, batches: int) -> int | None:
        """Samples of so many batches; None where too few tell theirs, 0 where nobody knows them."""
        counted, told = self._rows
        if self._whole and self._uncountable > (1 - _MOSTLY) * batches:
            return 0
        if told < _MOSTLY * batches or not told or self._full not in (None, self._most):
            return None
        return round(batches * counted / told)

    def weigh(self, batch: Any) -> None:
        """Note the bytes and tensors of a batch, now and then."""
        sizes = list(_sizes(batch))
        self._weighed[0] += 1
        self._weighed[1] += sum(sizes)
        self._weighed[2] += len(sizes)

    def mean_bytes(self) -> float:
        """Mean bytes of a batch, as far as any were weighed."""
        return self._weighed[1] / max(1, self._weighed[0])

    def mean_tensors(self) -> float:
        """Mean tensors of a batch, as far as any were weighed."""
        return self._weighed[2] / max(1, self._weighed[0])
