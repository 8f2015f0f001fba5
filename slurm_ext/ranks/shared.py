"""Memory that the ranks of one GPU share: each writes its own part and reads the others'.

On a GPU by CUDA's IPC handles, so that no gradient takes the way over the host; on CPUs in a file
of /dev/shm that has no name once everybody has it.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

from slurm_ext.ranks import cuda

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

LEAST_BYTES, MOST_BYTES = 1 << 20, 1 << 25  # of one region
REGIONS = 3  # two that are written in turn, and the leader's result
_FOLDER = "/dev/shm"  # noqa: S108 - files are made with a random name, for this user alone


class SharedMemory:
    """The buffers of all ranks of a group, this rank's own among them, in the group's order."""

    def __init__(self, buffers: list[torch.Tensor], group: ProcessGroup) -> None:
        self._buffers, self._group, self._turn = buffers, group, 0
        self._own = dist.get_rank(group)

    @property
    def region_bytes(self) -> int:
        """Most bytes of one sum."""
        return self._buffers[0].numel() // REGIONS

    def sum_(self, flat: torch.Tensor) -> None:
        """`flat`, at most a region, becomes the sum over the group: the same bits on all ranks.

        A region is written again after the next sum alone, which nobody begins before it has read.
        """
        self._turn = 1 - self._turn
        parts = [self._part(buffer, self._turn, flat) for buffer in self._buffers]
        parts[self._own].copy_(flat)
        self._meet(flat)
        flat.copy_(parts[0])
        for part in parts[1:]:
            flat.add_(part)

    def tell_(self, flat: torch.Tensor) -> None:
        """`flat` becomes the first rank's, on all."""
        part = self._part(self._buffers[0], REGIONS - 1, flat)
        if self._own == 0:
            part.copy_(flat)
        self._meet(flat)
        if self._own != 0:
            flat.copy_(part)

    def _part(self, buffer: torch.Tensor, region: int, like: torch.Tensor) -> torch.Tensor:
        begin, size = region * self.region_bytes, like.numel() * like.element_size()
        return buffer[begin : begin + size].view(like.dtype)

    def _meet(self, flat: torch.Tensor) -> None:
        """Wait until all ranks have written and read what they began."""
        if flat.is_cuda:
            torch.cuda.current_stream(flat.device).synchronize()
        dist.barrier(group=self._group)


def shared_memory(device: torch.device, bytes_: int, group: ProcessGroup) -> SharedMemory | None:
    """Memory for sums of `bytes_` or a part of them; None, on all ranks, where one cannot share it.

    Collective over the group, which is gloo's.
    """
    on_gpu = device.type == "cuda"
    region = min(MOST_BYTES, max(LEAST_BYTES, 1 << (bytes_ - 1).bit_length()))
    size = REGIONS * (MOST_BYTES if on_gpu else region)  # a GPU's memory is kept to the end: once
    own: torch.Tensor | None = None
    handle: Any = None
    with suppress(Exception):  # whatever a driver or a torch lacks: gloo then, on all ranks
        own, handle = cuda.allocated(device, size) if on_gpu else _on_cpu(size)
    handles = _gathered(handle, group)
    buffers: list[torch.Tensor] = []
    if own is not None and None not in handles:
        with suppress(Exception):  # as above
            rank = dist.get_rank(group)
            buffers = [
                own if at == rank else _opened(h, device, size) for at, h in enumerate(handles)
            ]
    agreed = all(_gathered(bool(buffers), group))
    if isinstance(handle, str):
        with suppress(OSError):
            Path(handle).unlink()
    return SharedMemory(buffers, group) if agreed else None


def _gathered(value: Any, group: ProcessGroup) -> list[Any]:
    rows: list[Any] = [None] * dist.get_world_size(group)
    dist.all_gather_object(rows, value, group=group)
    return rows


def _on_cpu(size: int) -> tuple[torch.Tensor, str]:
    descriptor, path = tempfile.mkstemp(prefix="dlqueue-ranks-", dir=_FOLDER)
    with os.fdopen(descriptor, "wb") as file:
        os.posix_fallocate(file.fileno(), 0, size)  # a full one is told here, not by a signal
    return _mapped(path, size), path


def _opened(handle: str | bytes, device: torch.device, size: int) -> torch.Tensor:
    """Another rank's buffer, by its path or CUDA's handle."""
    if not isinstance(handle, str):
        return cuda.opened(handle, device, size)
    if Path(handle).stat().st_size != size:  # torch would make a file that is not there, of zeros
        raise FileNotFoundError(handle)
    return _mapped(handle, size)


def _mapped(path: str, size: int) -> torch.Tensor:
    return torch.from_file(path, shared=True, size=size, dtype=torch.uint8)
