"""Writes to large arrays, seen by the kernel: a page that was written to since a fork is copied.

Pages that a process shares with its forked workers are mapped twice; a write gives the writer a
copy of its own, which `/proc/self/pagemap` tells by bit 56 ("exclusively mapped", Linux's
Documentation/admin-guide/mm/pagemap.rst) to anybody. 8 bytes are read for each 4 KiB: up to 18 ms
for a GB. Sums tell of the two ends, whose pages hold other things, too.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
import zlib
from typing import Any

_EXCLUSIVE = bytes(value & 1 for value in range(256))  # of an entry's highest byte
_ENTRY = 8
_MOST_SUMMED = 1 << 24
_PAGE_S = 70e-9  # of a look at one page; 10e-9 in huge ones


class Memory:
    """Bytes of this process that `owner` keeps."""

    def __init__(self, owner: Any, address: int, size: int) -> None:
        self.owner, self.address, self.size = owner, address, size
        page, end = mmap.PAGESIZE, address + size
        first, last = -(-address // page), end // page
        self._first, self._count = first, max(0, last - first)
        inner, outer = (first * page, last * page) if self._count else (end, end)
        self._ends = [(address, inner - address), (outer, end - outer)]

    def sum(self) -> int:
        """Sum of all bytes, or of the first 16 MiB."""
        return _sum(self.address, min(self.size, _MOST_SUMMED))

    def ends(self) -> tuple[int, ...]:
        """Sums of the bytes outside whole pages."""
        return tuple(_sum(address, size) for address, size in self._ends)

    def copied(self) -> bool:
        """True if this process has one of the whole pages for itself."""
        if not self._count:
            return False
        with open("/proc/self/pagemap", "rb", buffering=0) as pagemap:
            entries = os.pread(pagemap.fileno(), _ENTRY * self._count, _ENTRY * self._first)
        if len(entries) != _ENTRY * self._count:
            raise OSError("the kernel does not tell of these pages")
        return 1 in entries[_ENTRY - 1 :: _ENTRY].translate(_EXCLUSIVE)

    def look_s(self) -> float:
        """Seconds that `copied` takes at most, about: a measured one may be another's turn."""
        return self._count * _PAGE_S

    def has(self, address: int) -> bool:
        """True if this is the address of one of its bytes."""
        return self.address <= address < self.address + self.size


def memory_of(item: Any) -> Memory | None:
    """A numpy array's or a tensor's bytes in this process's own memory; None: of nothing else."""
    torch, numpy = sys.modules["torch"], sys.modules.get("numpy")
    if isinstance(item, torch.Tensor):
        plain = item.device.type == "cpu" and item.layout == torch.strided
        return _memory_of_tensor(item) if plain else None
    if numpy is None or not isinstance(item, numpy.ndarray):
        return None
    while isinstance(item.base, numpy.ndarray):
        item = item.base
    mapped = isinstance(item, numpy.memmap) or not item.flags.contiguous
    if mapped or not item.nbytes:
        return None
    return Memory(item, item.__array_interface__["data"][0], item.nbytes)


def _memory_of_tensor(tensor: Any) -> Memory | None:
    try:
        if tensor.is_shared():
            return None
        storage = (getattr(tensor, "untyped_storage", None) or tensor.storage)()  # before torch 2
        size = storage.nbytes()
        return Memory(storage, storage.data_ptr(), size) if size else None
    except (NotImplementedError, RuntimeError):  # a tensor without memory of its own
        return None


def _sum(address: int, size: int) -> int:
    return zlib.crc32((ctypes.c_char * size).from_address(address)) if size > 0 else 0
