"""A GPU's memory that other processes open, by libcuda's own calls (CUDA Driver API, IPC).

Torch shares tensors, too, but counts who uses them, and warns at the end of a process whose memory
others have still open, as ranks that end together always have.
"""

from __future__ import annotations

import ctypes
from typing import Any

import torch

_PEER_ACCESS = 1  # CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS


class _Handle(ctypes.Structure):
    _fields_ = (("bytes", ctypes.c_ubyte * 64),)


class _DeviceBytes:
    """Memory as torch.as_tensor takes it (CUDA array interface, version 3)."""

    def __init__(self, address: int, size: int) -> None:
        layout: dict[str, Any] = {"shape": (size,), "typestr": "|u1", "strides": None}
        self.__cuda_array_interface__ = {**layout, "data": (address, False), "version": 3}


def allocated(device: torch.device, size: int) -> tuple[torch.Tensor, bytes]:
    """Bytes of the GPU, kept until the process ends, and what others open them by.

    Raises RuntimeError or OSError where there is no such memory, or none that can be shared.
    """
    torch.cuda.current_stream(device).synchronize()  # its context is this thread's from now on
    address, handle = ctypes.c_uint64(), _Handle()
    _call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
    _call("cuIpcGetMemHandle", ctypes.byref(handle), address)
    return _tensor(address.value, size, device), bytes(handle)


def opened(handle: bytes, device: torch.device, size: int) -> torch.Tensor:
    """Another process's bytes. Raises RuntimeError or OSError."""
    address = ctypes.c_uint64()
    words = (ctypes.byref(address), _Handle.from_buffer_copy(handle), ctypes.c_uint(_PEER_ACCESS))
    _call("cuIpcOpenMemHandle_v2", *words)
    return _tensor(address.value, size, device)


def _tensor(address: int, size: int, device: torch.device) -> torch.Tensor:
    return torch.as_tensor(_DeviceBytes(address, size), device=device)


def _call(name: str, *words: Any) -> None:
    code = getattr(ctypes.CDLL("libcuda.so.1"), name)(*words)
    if code:
        raise RuntimeError(f"{name} gave {code}")
