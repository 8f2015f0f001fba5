"""Freed memory goes back to the system, where the C library can give it."""

import ctypes
from pathlib import Path

import numpy as np
import pytest

from slurm_ext.model.freed_memory import give_back


def resident_kib() -> int:
    """Of this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))


def test_what_was_freed_between_blocks_in_use_is_given_back() -> None:
    """Here 64 MiB in blocks of 64 KiB, of which every other one is freed."""
    blocks = [np.ones(8192) for _ in range(2048)]
    del blocks[::2]
    before = resident_kib()
    assert give_back()
    assert resident_kib() < before - 32 * 1024
    assert all(block[0] == 1 for block in blocks)


def test_another_c_library_keeps_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """One without the call, as musl is, is no error."""
    monkeypatch.setattr(ctypes, "CDLL", lambda _: object())
    assert not give_back()
