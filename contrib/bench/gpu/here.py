"""The surroundings of a row: its device, its GPUs, its time and its folder."""

import os
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from contrib.bench.gpu.report import AbsentError

ROOT = Path(__file__).parents[3]
SITE = ROOT / "slurm_ext" / "probe" / "site"
CONTROL = "/usr/bin/nvidia-cuda-mps-control"
_OURS = ("DLQUEUE", "CUDA_MPS_", "PYTHONPATH")


@dataclass(frozen=True, slots=True, kw_only=True)
class Here:
    """Resources of a row; `device` is cuda, cpu, or empty with the reason in `no_device`."""

    device: str
    no_device: str
    gpus: tuple[str, ...]  # names for CUDA_VISIBLE_DEVICES, UUIDs where NVML tells them
    index: str  # of the first one, as Slurm and nvidia-smi number them
    gpu_name: str
    control: str  # the program that starts MPS
    seconds: float
    folder: str

    def needs_device(self) -> None:
        """Raise AbsentError where there is nothing to compute on."""
        if not self.device:
            raise AbsentError(self.no_device)

    def needs_cuda(self) -> None:
        """Raise AbsentError where the device is no GPU."""
        self.needs_device()
        if self.device != "cuda":
            raise AbsentError("the device is the CPU")

    @property
    def uuid(self) -> str:
        """UUID of the GPU that is measured. Raises AbsentError where NVML does not tell it."""
        if not self.gpus or not self.gpus[0].startswith("GPU-"):
            raise AbsentError("NVML tells no UUID of the GPU")
        return self.gpus[0]

    def environment(self, more: Mapping[str, str] | None = None, gpus: int = 1) -> dict[str, str]:
        """A program's environment: so many GPUs, nothing of dlqueue's or of another MPS."""
        env = {name: text for name, text in os.environ.items() if not name.startswith(_OURS)}
        env["OMP_NUM_THREADS"] = "1"
        if self.gpus:
            env |= {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
            env |= {"CUDA_VISIBLE_DEVICES": ",".join(self.gpus[:gpus])}
        return env | dict(more or {})

    def command(self, program: str, *arguments: str) -> list[str]:
        """The command line of a program of this benchmark."""
        module = f"contrib.bench.gpu.programs.{program}"
        return [sys.executable, "-W", "ignore", "-m", module, *arguments]

    def json(self) -> dict[str, Any]:
        """Fields by name."""
        return asdict(self)


def from_json(fields: Mapping[str, Any]) -> Here:
    """The surroundings that were written by `json`."""
    return Here(**{**fields, "gpus": tuple(fields["gpus"])})
