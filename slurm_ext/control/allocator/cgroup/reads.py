"""Reads from a block device: `io.max` (version 2) or `blkio.throttle.read_bps_device` (1) of a job.

The kernel counts what reaches the device: what the page cache holds costs nothing. A network file
system has no device on the node, and nothing is limited there.
"""

import logging
import os
from pathlib import Path
from typing import Any

from slurm_ext.control.allocator.cgroup.group import CgroupLimit, enter, leave, ours, slurms, write

V1, V2 = "blkio.throttle.read_bps_device", "io.max"
SYSFS = "/sys/dev/block"
log = logging.getLogger("dlqueue.control")


class Reads(CgroupLimit):
    """One job's limit of bytes read a second."""

    def plan(self, device: str) -> None:
        """Note which device `<major>:<minor>` it will be, before anything is changed."""
        self.kept["device"] = device

    def give(self, bytes_per_s: float) -> None:
        """Read at most so much from the device. Raises GoneError or OSError."""
        folder, most = enter(self.kept, self._place), max(1, round(bytes_per_s))
        equals, name = (" ", V1) if self.kept["own"] else (" rbps=", V2)
        write(folder, name, f"{self.kept['device']}{equals}{most}")

    def restore(self) -> bool:
        """Of the device that was limited alone (see Means)."""
        if self.kept["own"]:
            return leave(self.kept, V1)
        before = _rbps(self.kept["before"], self.kept["device"])
        return leave({**self.kept, "before": before}, V2)

    def _found(self) -> dict[str, Any]:
        folder = self._place.v2_folder()
        return ours(self._place, "blkio", V1) if folder is None else slurms(folder, V2)


def disk_of(path: str) -> str | None:
    """The disk whose reads are to be shared; None: they cannot be limited, and the log says why."""
    if not path:
        return None
    try:
        device = device_of(path)
    except OSError as error:
        log.warning("control.storage_path = %s: %s; no reads are limited", path, error.strerror)
        return None
    if device is None:
        log.warning("control.storage_path = %s is on no disk of this node: not limited", path)
    return device


def device_of(path: str, sysfs: str = SYSFS) -> str | None:
    """`<major>:<minor>` of the disk that holds the file system of `path`; None: there is none.

    Of a partition the whole disk: limits are set on nothing smaller. Raises OSError.
    """
    number = Path(path).stat().st_dev
    node = Path(sysfs, f"{os.major(number)}:{os.minor(number)}")
    if not node.exists():
        return None
    if (node / "partition").exists():
        node = node.resolve().parent
    return (node / "dev").read_text().strip()


def _rbps(before: str, device: str) -> str:
    """The line that sets a device's reads back to what they were."""
    line = next((line for line in before.splitlines() if line.split()[:1] == [device]), "")
    words = dict(word.split("=", 1) for word in line.split()[1:] if "=" in word)
    return f"{device} rbps={words.get('rbps', 'max')}"
