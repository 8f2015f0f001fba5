"""GPUs for machines without one: a C library in NVML's place, built for the test that wants it.

It answers as an H100 did (tests/node/data/nvml, by contrib/fixtures/capture_nvml.py); nvidia-ml-py
itself is the real one, so that what is tested is our whole way through it.
"""

import ctypes
import shutil
import subprocess
from dataclasses import astuple, dataclass
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent / "node" / "nvml" / "libnvidia-ml.c"


@dataclass(kw_only=True)
class Gpu:
    """What one GPU says, in the library's own units; `state`: ok, lost, hang, old, metered."""

    uuid: str
    minor: int = 0
    pci: str = "00000000:01:00.0"
    util: int = 50
    mem_util: int = 20
    mem_bytes: int = 1 << 30
    power_mw: int = 300_000
    energy_mj: int = 1_000_000
    mig: int = 0
    state: str = "ok"
    sm_active: float = 40.0
    pid: int = 0
    pid_mem: int = 0
    pid_sm: int = 0
    other_pid: int = 0
    other_mem: int = 0
    other_sm: int = 0


class StandIn:
    """The library in `folder`, and what its GPUs say, which a test may change at any time."""

    def __init__(self, folder: Path) -> None:
        compiler = shutil.which("cc") or shutil.which("gcc")
        if compiler is None:
            pytest.skip("no C compiler to build the stand-in of NVML")
        pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed")
        self.folder, self._said = folder, folder / "gpus"
        self._library = str(folder / "libnvidia-ml.so.1")
        named = "-Wl,-soname,libnvidia-ml.so.1"
        command = [compiler, "-shared", "-fPIC", named, "-o", self._library, str(SOURCE)]
        subprocess.run(command, check=True)
        self.say()

    def load(self) -> None:
        """Into this very process: whoever asks for the library by its name gets this one."""
        ctypes.CDLL(self._library)

    def say(self, *gpus: Gpu) -> None:
        """From now on there are these GPUs."""
        lines = "".join(" ".join(str(value) for value in astuple(gpu)) + "\n" for gpu in gpus)
        hidden = self._said.with_name("new")
        hidden.write_text(lines)
        hidden.rename(self._said)

    @property
    def env(self) -> dict[str, str]:
        """For the process that is to find the library."""
        return {"LD_LIBRARY_PATH": str(self.folder), "DLQUEUE_FAKE_NVML": str(self._said)}
