"""Programs of several ranks, which a test starts by hand, as srun would."""

import subprocess
import sys
from collections.abc import Sequence

from tests.probe.conftest import ROOT

LIMIT_S = 300


def ran_ranks(words: Sequence[str], env: dict[str, str], port: int, count: int = 2) -> None:
    """All ranks of a program, to their end; whatever they disagree on, none of them hangs."""
    names = {"WORLD_SIZE": str(count), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    ranks = [
        subprocess.Popen(
            [sys.executable, "-W", "ignore", *words],
            env={**env, **names, "RANK": str(rank), "OMP_NUM_THREADS": "1"},
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(count)
    ]
    try:
        for one in ranks:
            _, said = one.communicate(timeout=LIMIT_S)
            assert one.returncode == 0, said
    finally:
        for one in ranks:
            one.kill()
            one.communicate()
