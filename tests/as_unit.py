"""Programs of tests that run under the restrictions of their systemd unit."""

import os
import shutil
import sys
from pathlib import Path

from contrib.bench.borders.confinement.confine import command


def dlqueue_as_unit(unit: str, writable: list[Path], *words: str) -> list[str]:
    """Command line of `dlqueue WORDS` under a unit's restrictions, where root can set them.

    `writable` stands for the unit's own paths; of /tmp nothing else is there.
    """
    argv = [sys.executable, "-m", "slurm_ext.cli", *words]
    if os.geteuid() != 0 or shutil.which("systemd-analyze") is None:
        return argv
    return command(f"{unit}.service", "root", writable, *argv)
