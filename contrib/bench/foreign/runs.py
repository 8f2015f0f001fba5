"""One program, run to its end in one of three ways: without dlqueue, watched, moved."""

import json
import os
import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contrib.bench.foreign.program import Program
from slurm_ext.node.record.summaries import parse_summary
from slurm_ext.ranks.free_port import free_port

ROOT = Path(__file__).parents[3]
SITE = ROOT / "slurm_ext" / "probe" / "site"
WAYS = {"off": {}, "on": {}, "moved": {"DLQUEUE_NUM_WORKERS": "2"}}
LONGEST_S = 300.0
_QUIET = {
    "OMP_NUM_THREADS": "1",
    "CUDA_VISIBLE_DEVICES": "",
    "HF_HUB_OFFLINE": "1",
    "YOLO_OFFLINE": "1",
    "JAX_PLATFORMS": "cpu",
}


@dataclass(frozen=True, slots=True)
class Ran:
    """Results of a run: the program's own words, and the probe's."""

    status: int
    truths: list[dict[str, Any]]
    said: list[str]  # lines of stderr, numbers left out
    summaries: list[dict[str, Any]]

    @property
    def losses(self) -> list[str]:
        """Each process's losses, in one order."""
        return sorted(str(truth["losses"]) for truth in self.truths)


def ran(python: Path, program: Program, way: str) -> Ran:
    """Run `program` once; a run that takes too long has status 124."""
    with tempfile.TemporaryDirectory() as folder:
        run_dir = Path(folder, "run")
        run_dir.mkdir(mode=0o700)
        env = _environment(way, run_dir, Path(folder))
        argv = [str(python), *program.argv]
        try:
            done = subprocess.run(
                argv,
                env=env,
                cwd=ROOT,
                capture_output=True,
                text=True,
                check=False,
                timeout=LONGEST_S,
            )
        except subprocess.TimeoutExpired:
            return Ran(124, [], [], [])
        lines = [line for line in done.stdout.splitlines() if line.startswith("TRUTH ")]
        truths = [json.loads(line.removeprefix("TRUTH ")) for line in lines]
        files = sorted(run_dir.glob("summary-*.json"))
        said = [re.sub(r"\d+", "#", line) for line in done.stderr.splitlines()]
        return Ran(done.returncode, truths, said, [parse_summary(f.read_bytes()) for f in files])


def _environment(way: str, run_dir: Path, folder: Path) -> dict[str, str]:
    ours = ("DLQUEUE_", "SLURM_", "PYTHON")
    env = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    env |= {**_QUIET, "BENCH_PORT": str(free_port()), "YOLO_CONFIG_DIR": str(folder)}
    if way != "off":
        env |= {"PYTHONPATH": str(SITE), "DLQUEUE_RUN_DIR": str(run_dir), **WAYS[way]}
    return env
