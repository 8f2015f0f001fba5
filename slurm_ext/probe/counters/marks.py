"""Marks of a loader's first batches: ranks that read the same ones hold parts of one model.

Only memory of the host is read, a few KiB of each tensor, at its address: no operation of torch
runs, and no accelerator is waited for. What could not be read has no part in the mark.
"""

from __future__ import annotations

import ctypes
import sys
import zlib
from itertools import islice
from typing import Any

FIRST = 4  # batches that are marked
_MOST_PARTS, _DEEPEST = 16, 4
_PIECES, _PIECE = 16, 256  # bytes; a smaller tensor is read whole
_MOST_TEXT = 256
_PLACES = (
    ("num_replicas", "rank"),
    ("num_processes", "process_index"),
    ("data_parallel_size", "data_parallel_rank"),
)


def mark(batch: Any, share: tuple[int, int] | None) -> int | None:
    """A number by the batch's content and the sampler's share; None: nothing could be read."""
    crc, read = zlib.crc32(repr(share).encode()), False
    for part in islice(_leaves(batch, _DEEPEST), _MOST_PARTS):
        content = _bytes_of(part)
        if content:
            crc, read = zlib.crc32(content, crc), True
    return crc if read else None


def share_of(loader: Any) -> tuple[int, int] | None:
    """Shares into which the loader's data is dealt, and which it reads; None: nobody deals."""
    batches = getattr(loader, "batch_sampler", None)
    sources = (getattr(loader, "sampler", None), batches, getattr(batches, "sampler", None))
    for source in (*sources, getattr(loader, "dataset", None)):
        for names in _PLACES:
            shares, own = (getattr(source, name, None) for name in names)
            if type(shares) is int and type(own) is int and shares > 1:
                return shares, own
    return None


def _leaves(part: Any, depth: int) -> Any:
    if depth and isinstance(part, (list, tuple, dict)):
        for one in part.values() if isinstance(part, dict) else part:
            yield from _leaves(one, depth - 1)
    elif depth and hasattr(part, "values") and hasattr(part, "keys"):
        yield from _leaves(list(part.values()), depth - 1)
    else:
        yield part


def _bytes_of(part: Any) -> bytes:
    """Some of its content; empty: none is in the host's memory, or in one piece."""
    if type(part) is sys.modules["torch"].Tensor:
        return _of_tensor(part)
    if type(part).__module__ == "numpy" and part.dtype.kind in "biufcSU":
        return _pieces(part.nbytes, memoryview(part).cast("B").__getitem__)
    if isinstance(part, (int, float, str, bytes)):
        return repr(part)[:_MOST_TEXT].encode("utf-8", "replace")
    return b""


def _of_tensor(tensor: Any) -> bytes:
    torch, count = sys.modules["torch"], tensor.nelement()
    if not count or tensor.device.type != "cpu" or tensor.layout is not torch.strided:
        return b""
    span = 1 + sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride()))
    if span != count:  # with gaps, or the same numbers several times
        return b""
    address = tensor.data_ptr()

    def read(part: slice) -> bytes:
        return ctypes.string_at(address + part.start, part.stop - part.start)

    return repr(tuple(tensor.shape)).encode() + _pieces(count * tensor.element_size(), read)


def _pieces(size: int, read: Any) -> bytes:
    """Pieces from all over so many bytes."""
    if size <= _PIECES * _PIECE:
        return bytes(read(slice(0, size)))
    starts = (number * (size - _PIECE) // (_PIECES - 1) for number in range(_PIECES))
    return b"".join(bytes(read(slice(start, start + _PIECE))) for start in starts)
