"""Runs of one training: as written, at fixed counts, and tuned by the probe as in a job."""

import json
import os
import subprocess
import sys
import tempfile
from bisect import bisect_right
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from contrib.bench.autotune.kinds import KINDS

ROOT = Path(__file__).parents[3]
SITE = ROOT / "slurm_ext" / "probe" / "site"
TUNED = {"DLQUEUE_AUTOTUNE": "1"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained:
    """One run: the seconds at which its steps were done, and what its loaders say of themselves."""

    done_s: list[float]
    loaders: list[dict[str, Any]] = field(default_factory=list)

    def steps(self, seconds: float) -> int:
        """Steps done within so many seconds."""
        return bisect_right(self.done_s, seconds)

    def rate_after(self, seconds: float) -> float:
        """Steps per second from that moment to the end."""
        first, last = self.steps(seconds), len(self.done_s)
        return (last - first) / max(self.done_s[-1] - seconds, 1e-9)


def train(kind: str, seconds: float, workers: int | None = None, tuned: bool = False) -> Trained:
    """Train with so many workers (None: the author's), under the probe where it is `tuned`."""
    written = KINDS[kind].workers if workers is None else workers
    program = [sys.executable, "-W", "ignore", "-m", "contrib.bench.autotune.training", kind]
    argv = [*program, "--workers", str(written), "--seconds", str(seconds)]
    env = {k: v for k, v in os.environ.items() if not k.startswith(("DLQUEUE_", "PYTHONPATH"))}
    with tempfile.TemporaryDirectory(prefix="dlqueue-bench-") as folder:
        if tuned:
            env |= {"DLQUEUE_RUN_DIR": folder, "PYTHONPATH": str(SITE), **TUNED}
        done = subprocess.run(argv, cwd=ROOT, env=env, check=True, stdout=subprocess.PIPE)
        summaries = [json.loads(path.read_text()) for path in Path(folder).glob("summary-*.json")]
    loaders = [loader for summary in summaries for loader in summary["loaders"]]
    return Trained(done_s=json.loads(done.stdout), loaders=loaders)
