"""The example trainings: honest, unaware of dlqueue, and unharmed by it."""

import json
import re
import subprocess
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "job_templates" / "examples"
WORKERS = {"jpeg": "2", "slow_storage": "8", "compute": "1", "greedy": "1"}
SAMPLES = 320
Environment = Callable[..., dict[str, str]]
Python = Callable[..., subprocess.CompletedProcess[str]]


@pytest.mark.parametrize(("name", "workers"), list(WORKERS.items()))
def test_no_sample_is_lost_doubled_or_misplaced(
    environment: Environment, python: Python, tmp_path: Path, name: str, workers: str
) -> None:
    """With the workers that suit it, each training sees every sample once, in its own order."""
    sizes = {"EXAMPLE_SAMPLES": str(SAMPLES), "EXAMPLE_EPOCHS": "1"}
    env = environment(tmp_path / "run", DLQUEUE_NUM_WORKERS=workers, **sizes)
    done = python(["-W", "ignore", str(EXAMPLES / f"{name}_train.py")], env)
    assert done.returncode == 0, done.stderr
    everything = sum(zlib.crc32(b"%d" % i) for i in range(SAMPLES)) % 2**32
    assert f"{SAMPLES} samples, set {everything:08x}" in done.stdout
    if name == "slow_storage":
        in_order = zlib.crc32(b",".join(b"%d" % i for i in range(SAMPLES)))
        assert f"order {in_order:08x}" in done.stdout
    assert re.search(r"^samples/s: [0-9.]+$", done.stdout, re.MULTILINE)
    assert "accelerator: " in done.stdout.splitlines()[0]
    (summary,) = (json.loads(p.read_text()) for p in (tmp_path / "run").glob("summary-*.json"))
    (loader,) = summary["loaders"]
    assert (loader["method"], loader["started_workers"]) == ("gated", int(workers))
    assert (loader["left_alone"], loader["fallback"], summary["faults"]) == (None, None, [])


@pytest.mark.parametrize("name", WORKERS)
def test_the_jobs_are_plain(name: str) -> None:
    """Neither the script nor the training has heard of dlqueue; the script finds its training."""
    script = (EXAMPLES / f"{name}_train.sbatch").read_text()
    training = (EXAMPLES / f"{name}_train.py").read_text()
    assert "dlqueue" not in (script + training).lower()
    assert f'python3 "$SLURM_SUBMIT_DIR/{name}_train.py"' in script
    assert script.startswith("#!/bin/bash\n")
