"""Workers that are killed leave no folder in the user's /tmp."""

import os
import subprocess
import sys
from pathlib import Path

from tests.probe.conftest import QUICKLY, ROOT

KILLED = "tests.probe.workers_killed"


def test_killed_workers_leave_no_sockets(short_folder: Path) -> None:
    """Each hands its batches over by a socket: in a folder of the training, which removes it."""
    subprocess.run(
        [sys.executable, *QUICKLY, KILLED],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(short_folder)},
        check=True,
        timeout=300,
    )
    assert list(short_folder.glob("pymp-*")) == []
