"""Surroundings of a row of the benchmark `gpu`, for tests: the CPU stands for the device."""

from pathlib import Path
from typing import Any

import pytest

from contrib.bench.gpu import started
from contrib.bench.gpu.here import Here

UUID = "GPU-cafe0000-0000-0000-0000-000000000000"


def here(folder: Path, **fields: Any) -> Here:
    """A row's surroundings with little time."""
    known = {
        "device": "cpu",
        "no_device": "",
        "gpus": (UUID,),
        "index": "0",
        "gpu_name": "Stand-in",
        "control": "/nowhere/nvidia-cuda-mps-control",
        "seconds": 0.0,
        "folder": str(folder),
    }
    return Here(**{**known, **fields})


def rows_are(
    program: str, folder: Path, monkeypatch: pytest.MonkeyPatch, *, clean_s: float, least_s: float
) -> None:
    """Each row's process is this program, in a tree of its own."""
    place = folder / "contrib" / "bench" / "gpu"
    place.mkdir(parents=True)
    for package in (place, place.parent):
        (package / "__init__.py").touch()
    (place / "one.py").write_text(program)
    monkeypatch.setattr(started, "ROOT", folder)
    monkeypatch.setattr(started, "CLEAN_S", clean_s)
    monkeypatch.setattr(started, "LEAST_S", least_s)
