"""The cost of `dlqueue run` beside the same program alone, in turns, and its first line."""

import os
import statistics
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from time import monotonic
from typing import Any

from contrib.bench.common.measure import Spent, timed

RUN = [sys.executable, "-m", "slurm_ext.cli", "run"]
TRAINING = """
import sys, time
from torch.utils.data import DataLoader

class Samples:
    def __len__(self):
        return int(sys.argv[1])
    def __getitem__(self, index):
        time.sleep(0.001)
        return index

for batch in DataLoader(Samples(), batch_size=16):
    time.sleep(0.005)
"""


def cost(folder: Path, pairs: int, samples: int) -> dict[str, Any]:
    """Milliseconds that a program of nothing pays, and per cent that a training does.

    The training keeps its workers, for a tuned one gains what it pays, and more: its per cent
    stands beside. Processor time, too, which other work on the machine changes less.
    """
    script = folder / "train.py"
    script.write_text(TRAINING)
    training = [sys.executable, str(script), str(samples)]
    nothing = _pairs(folder, [sys.executable, "-c", "pass"], pairs)
    trained = _pairs(folder, training, pairs, DLQUEUE_AUTOTUNE="0")
    tuned = _pairs(folder, training, max(1, pairs // 3))
    return {
        "ms": _median(1000 * (run.seconds - bare.seconds) for bare, run in nothing),
        "cpu_ms": _median(1000 * (run.cpu_s - bare.cpu_s) for bare, run in nothing),
        "percent": _median(100 * (run.seconds / bare.seconds - 1) for bare, run in trained),
        "percent_tuned": _median(100 * (run.seconds / bare.seconds - 1) for bare, run in tuned),
        "training_s": _median(bare.seconds for bare, _ in trained),
        "training_cpu_ms": _median(1000 * (run.cpu_s - bare.cpu_s) for bare, run in trained),
        "nothing_s": _median(bare.seconds for bare, _ in nothing),
        "pairs": pairs,
    }


def first_line(folder: Path, samples: int) -> dict[str, Any]:
    """Seconds from `dlqueue run python train.py` to the line that tells its rate, and the line."""
    command = [*RUN, sys.executable, str(folder / "train.py"), str(samples)]
    began = monotonic()
    done = subprocess.run(command, env=_own(folder), capture_output=True, text=True, check=True)
    seconds = monotonic() - began
    line = next((one for one in done.stderr.splitlines() if "samples/s" in one), "")
    return {"s": round(seconds, 2), "line": line}


def _median(values: Iterable[float]) -> float:
    return round(statistics.median(values), 3)


def _pairs(folder: Path, argv: list[str], pairs: int, **more: str) -> list[tuple[Spent, Spent]]:
    """Both commands' times, the first of them in turn."""
    found, env = [], {**_own(folder), **more}
    for number in range(pairs):
        both = {"bare": argv, "run": [*RUN, *argv]}
        order = ("bare", "run") if number % 2 else ("run", "bare")
        spent = {name: timed(both[name], env=env) for name in order}
        found.append((spent["bare"], spent["run"]))
    return found


def _own(folder: Path) -> dict[str, str]:
    """A history of its own, no site's probe, and modules compiled, as an install has them."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("DLQUEUE")}
    return {**env, "XDG_STATE_HOME": str(folder / "own"), "PYTHONDONTWRITEBYTECODE": ""}
