"""Loads of known shares, as a process of their own makes them; here on the CPU."""

import sys
import weakref
from pathlib import Path
from typing import Any

import pytest
import torch

from contrib.bench.gpu.loads import Done, loads
from contrib.bench.gpu.programs import load
from contrib.bench.gpu.programs.device import Device
from contrib.bench.gpu.rows.counters import KINDS
from contrib.bench.gpu.talker import ProgramError, Talker
from tests.bench.gpu.gpu_here import here


def test_a_load_does_what_it_is_told(tmp_path: Path) -> None:
    """Every kind makes rounds; copies move bytes; a smaller share makes fewer rounds."""
    done: dict[tuple[str, float], Done] = {}
    with loads(here(tmp_path), 1, KINDS, {}) as (load,):
        for kind, share in (*((kind, 1.0) for kind in KINDS), ("compute", 0.2)):
            load.begin(kind, 0.3, share, hold_mib=8)
            done[kind, share] = load.end()
    assert all(one.kernels > 0 and one.wall_s >= 0.3 and one.busy_s > 0 for one in done.values())
    assert done["copy", 1.0].gib > 0 < done["upload", 1.0].gib
    assert done["compute", 1.0].gib == 0
    assert done["compute", 0.2].kernels < done["compute", 1.0].kernels


def test_memory_that_is_no_longer_held_goes_back_to_the_device(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nobody knows it any more when torch gives back what it caches; what is held stays."""
    device, held = Device("cpu"), list[Any]()
    device.is_cuda = True
    known: list[Any] = []
    left: list[list[bool]] = []
    monkeypatch.setattr(
        torch.cuda, "empty_cache", lambda: left.append([x() is not None for x in known])
    )
    load._hold(device, 2, held)
    known.append(weakref.ref(held[0]))
    load._hold(device, 2, held)
    assert (left, known[0]() is held[0]) == ([[]], True)
    load._hold(device, 0, held)
    assert (left, held) == ([[], [False]], [])


@pytest.mark.parametrize(
    ("program", "why"),
    [
        ("raise ValueError('CUDA error: out of memory')", "CUDA error: out of memory"),
        ("import time; time.sleep(60)", "did not answer in time"),
        ("print('a library says')\nprint('{\"a\": 1}')", ""),
    ],
)
def test_a_program_that_fails_says_why(tmp_path: Path, program: str, why: str) -> None:
    """Its last words; a library's own words on stdout are no answer."""
    argv = [sys.executable, "-c", program]
    with Talker(argv, {}, str(tmp_path / "said")) as talker:
        talker.tell(a=1)
        if why:
            with pytest.raises(ProgramError, match=why):
                talker.hear(3.0)
        else:
            assert talker.hear(30.0) == {"a": 1}
