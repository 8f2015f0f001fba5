"""Work that a hook leaves behind does not depend on the hook any more."""

import subprocess
import sys
from pathlib import Path

_NOBODY_WAITS = """
import os, sys
from slurm_ext.node.common.daemonize import _stand_alone
reading, writing = os.pipe()
os.close(reading)
_stand_alone("dlqueue-test", writing, lambda: os.mkdir(sys.argv[1]))
"""


def test_work_is_done_though_the_hook_is_gone(tmp_path: Path) -> None:
    """A prolog that was killed, or waited no longer, leaves a sampler all the same."""
    done = tmp_path / "done"
    subprocess.run([sys.executable, "-c", _NOBODY_WAITS, str(done)], timeout=100, check=True)
    assert done.is_dir()
