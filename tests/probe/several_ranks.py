"""Programs of several ranks, which a test starts by hand, as srun would."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from typing import Any

from slurm_ext.ranks.free_port import free_port
from tests.probe.conftest import QUICKLY, ROOT

LIMIT_S = 300
FORKED = ("-W", "ignore", *QUICKLY, "tests.probe.forked_ranks")


def ran_ranks(module: str, word: Any, env: dict[str, str], count: int = 2) -> None:
    """All ranks of a program, to their end; whatever they disagree on, none of them hangs."""
    names = {"WORLD_SIZE": str(count), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    with subprocess.Popen(
        [sys.executable, *FORKED, str(count), module, str(word)],
        env={**env, **names, "OMP_NUM_THREADS": "1"},
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as ranks:
        try:
            _, said = ranks.communicate(timeout=LIMIT_S)
            assert ranks.returncode == 0, said
        finally:
            with suppress(ProcessLookupError):
                os.killpg(ranks.pid, signal.SIGKILL)
