"""Decide which processes are another tool's MPS, of which a name proves nothing.

A process chooses its name, its arguments and its environment; not the file that it runs, its user
or the device files that it holds. A script counts by its interpreter where the control program of
the settings, which are root's, is one itself.
"""

from __future__ import annotations

import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from slurm_ext.node.mps.rules import SmiGpu

PROGRAMS = ("nvidia-cuda-mps-control", "nvidia-cuda-mps-server")
DEVICE = "/dev/nvidia{}"
GPUS = "/proc/driver/nvidia/gpus"
MOST_USERS = 64  # processes of users whose device files are looked at
MOST_FILES = 1024


class GenuineMps:
    """Processes of MPS that have to do with a GPU.

    One of root's, or of the account that slurmd has, runs NVIDIA's program. One of another user
    holds the GPU's device file as well; `device` is that file's number.
    """

    def __init__(self, control: str, device: int | None) -> None:
        self._interpreter, self._device, self._looked = _interpreter(control), device, 0

    def __call__(self, pid: int, uid: int) -> bool:
        """True if the process of this user is one of them."""
        if not self._runs_mps(pid):
            return False
        if uid in (0, os.geteuid()):
            return True
        self._looked += 1
        few = self._looked <= MOST_USERS
        return few and self._device is not None and _holds(pid, self._device)

    def _runs_mps(self, pid: int) -> bool:
        """By its file: root's, writable for nobody else, called as NVIDIA calls it."""
        try:
            path = os.readlink(f"/proc/{pid}/exe").removesuffix(" (deleted)")
            status = os.stat(f"/proc/{pid}/exe")
        except OSError:
            return False
        if status.st_uid != 0 or status.st_mode & 0o022 or not stat.S_ISREG(status.st_mode):
            return False
        named = path.startswith("/") and os.path.basename(path) in PROGRAMS
        return named or (status.st_dev, status.st_ino) == self._interpreter


def device_of(gpu: str, card: SmiGpu) -> int | None:
    """Number of a GPU's device file (Slurm's index, else by its UUID); None if it has none."""
    minor = _minor(card.uuid) if card.uuid else None
    try:
        return os.stat(DEVICE.format(gpu if minor is None else minor)).st_rdev or None
    except OSError:
        return None


def index_of(gpu: str, card: SmiGpu) -> str | None:
    """Slurm's index of a GPU, else the driver's number of its UUID; None if nobody tells it."""
    if gpu.isdecimal():
        return gpu
    return _minor(card.uuid) if card.uuid else None


def _minor(uuid: str) -> str | None:
    """The driver's number of a GPU, where it lists the UUID."""
    try:
        for slot in os.listdir(GPUS):
            with open(f"{GPUS}/{slot}/information", encoding="ascii", errors="replace") as file:
                lines = dict(line.partition(":")[::2] for line in file)
            if lines.get("GPU UUID", "").strip() == uuid:
                return lines.get("Device Minor", "").strip() or None
    except OSError:
        pass  # no driver
    return None


def _holds(pid: int, device: int) -> bool:
    """True if the process has the device file open."""
    try:
        with os.scandir(f"/proc/{pid}/fd") as files:
            for count, file in enumerate(files):
                if count >= MOST_FILES:
                    return False
                if os.stat(file.path).st_rdev == device:
                    return True
    except OSError:
        pass  # gone
    return False


def _interpreter(control: str) -> tuple[int, int] | None:
    """The file behind the first line of a control program that is a script."""
    try:
        with open(control, "rb") as file:
            first = file.readline(256)
        status = os.stat(first[2:].split()[0]) if first[:2] == b"#!" else None
    except (OSError, IndexError):
        return None
    return (status.st_dev, status.st_ino) if status else None
