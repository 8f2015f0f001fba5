"""Runs of one configuration under the probe: the job's record, and the program's own clock."""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contrib.bench.common.limited_link import Place, linked
from contrib.bench.stalls.configurations import Injected
from slurm_ext.cli.profile.run_folder import ProfileLimits, environment
from slurm_ext.core.errors import SandboxError

ROOT = Path(__file__).parents[3]
SITE = ROOT / "slurm_ext" / "probe" / "site"
FREE_MBIT = 10_000.0  # a link that limits nothing: for ranks that do not synchronise
LIMIT_S = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """Clocks and summaries of a run's ranks, by rank, and how long all of it took."""

    clocks: Sequence[dict[str, Any]]
    summaries: Sequence[dict[str, Any]]
    windows: Sequence[dict[str, Any]]
    wall_s: float


def ran(injected: Injected, steps: int, profile: ProfileLimits | None = None) -> Ran:
    """Train with all ranks under the probe. Raises SandboxError where a rank fails.

    `profile`: in windows, which end the training before its own clock is written.
    """
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="dlqueue-bench-") as name, _places(injected) as places:
        folder = Path(name)
        ranks = [
            _start(injected, steps, folder, rank, place, profile)
            for rank, place in enumerate(places)
        ]
        try:
            _to_their_end(ranks)
        finally:
            for process in ranks:
                process.kill()
        clocks = [_read(path) for path in sorted(folder.glob("clock-*"))]
        found = [_read(path) for path in folder.glob("run-*/summary-*.json")]
        windows = [_read(path) for path in folder.glob("run-*/windows-*.json")]
    found.sort(key=lambda one: int(one["rank"]))
    return Ran(clocks=clocks, summaries=found, windows=windows, wall_s=time.monotonic() - began)


def _read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def _to_their_end(ranks: Sequence["subprocess.Popen[str]"]) -> None:
    for rank, process in enumerate(ranks):
        _, said = process.communicate(timeout=LIMIT_S)
        if process.returncode:
            raise SandboxError(f"rank {rank} ended with {process.returncode}: {said[-500:]}")


@contextlib.contextmanager
def _places(injected: Injected) -> Iterator[Sequence[Place | None]]:
    if injected.ranks == 1:
        yield [None]
        return
    with linked(injected.ranks, injected.mbit or FREE_MBIT) as places:
        yield places


def _start(
    injected: Injected,
    steps: int,
    folder: Path,
    rank: int,
    place: Place | None,
    profile: ProfileLimits | None,
) -> "subprocess.Popen[str]":
    run = folder / f"run-{rank}"
    run.mkdir()
    env = {k: v for k, v in os.environ.items() if not k.startswith(("DLQUEUE_", "PYTHONPATH"))}
    env |= {"DLQUEUE_RUN_DIR": str(run), "PYTHONPATH": str(SITE)}
    if profile is not None:
        env = environment(run, profile, env)
    env |= {"RANK": str(rank), "WORLD_SIZE": str(injected.ranks), "MASTER_PORT": "29611"}
    if place is not None:
        env |= {"MASTER_ADDR": "10.213.77.1", **place.environment}
    program = [sys.executable, "-W", "ignore", "-m", "contrib.bench.stalls.training"]
    argv = [*program, json.dumps(injected.json()), str(steps), str(folder / f"clock-{rank}")]
    prefix = place.prefix if place is not None else ()
    return subprocess.Popen([*prefix, *argv], cwd=ROOT, env=env, stderr=subprocess.PIPE, text=True)
