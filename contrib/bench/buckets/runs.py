"""Runs of all ranks of `buckets`, each in its own network namespace, over a limited link."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contrib.bench.common.limited_link import Place, to_their_end

ROOT = Path(__file__).parents[3]
SITE = ROOT / "slurm_ext" / "probe" / "site"


@dataclass(frozen=True, slots=True)
class Ran:
    """Clocks and summaries of a run's ranks, by rank."""

    clocks: Sequence[dict[str, Any]]
    summaries: Sequence[dict[str, Any]]


def ran(
    places: Sequence[Place],
    words: Sequence[str],
    *,
    module: str = "training",
    buckets: Sequence[str] = (),
) -> Ran:
    """Run a program of this folder in all ranks, to its end. Raises SandboxError where one fails.

    `buckets`: the probe's request of each rank; without any, there is no probe.
    """
    with tempfile.TemporaryDirectory(prefix="dlqueue-bench-") as name:
        folder = Path(name)
        ranks = [
            _start(folder, module, words, rank, place, len(places), buckets)
            for rank, place in enumerate(places)
        ]
        to_their_end(ranks)
        clocks = [_read(folder / f"clock-{rank}") for rank in range(len(ranks))]
        summaries = [_read(path) for path in folder.glob("run-*/summary-*.json")]
    return Ran(clocks, sorted(summaries, key=lambda one: int(one["rank"])))


def _read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text(encoding="ascii"))
    return found


def _start(
    folder: Path,
    module: str,
    words: Sequence[str],
    rank: int,
    place: Place,
    count: int,
    buckets: Sequence[str],
) -> "subprocess.Popen[str]":
    env = {k: v for k, v in os.environ.items() if not k.startswith(("DLQUEUE_", "PYTHONPATH"))}
    env |= {**place.environment, "OMP_NUM_THREADS": "1"}
    env |= {"RANK": str(rank), "WORLD_SIZE": str(count), "MASTER_PORT": "29641"}
    env |= {"MASTER_ADDR": "10.213.77.1", "DLQUEUE_EMULATED": "1"}
    if buckets:
        run = folder / f"run-{rank}"
        run.mkdir()
        env |= {"DLQUEUE_RUN_DIR": str(run), "PYTHONPATH": str(SITE)}
        env |= {"DLQUEUE_BUCKETS": buckets[rank]} if buckets[rank] else {}
    program = [sys.executable, "-W", "ignore", "-m", f"contrib.bench.buckets.{module}"]
    return subprocess.Popen(
        [*place.prefix, *program, *words, str(folder / f"clock-{rank}")],
        cwd=ROOT,
        env=env,
        stderr=subprocess.PIPE,
        text=True,
    )
