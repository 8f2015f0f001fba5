"""Surroundings of a row of the benchmark `gpu`, for tests: the CPU stands for the device."""

from pathlib import Path
from typing import Any

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
