"""A training with room for its own workers alone goes on with those, whatever is asked for."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.probe.conftest import QUICKLY, ROOT, Environment, Python

CROWDED = "tests.probe.programs_crowded"
SMALL_SHM = ("unshare", "-rm", "sh", "-c", 'mount -t tmpfs -o size=64m t /dev/shm && exec "$@"')


def only_loader(run_dir: Path) -> dict[str, Any]:
    """The loader's row of the one summary, which tells no fault."""
    (path,) = run_dir.glob("summary-*.json")
    summary = json.loads(path.read_text())
    assert summary["faults"] == []
    (row,) = summary["loaders"]
    return dict(row)


def test_tensors_of_a_batch_find_files(
    environment: Environment, python: Python, tmp_path: Path
) -> None:
    """Each is a descriptor while it waits behind a slow fetch; eight workers' would be too many."""
    env = environment(tmp_path / "run", DLQUEUE_NUM_WORKERS="8")
    done = python(["-m", CROWDED, "images_apart"], env)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")
    assert only_loader(tmp_path / "run")["gate"] <= 2


@pytest.mark.parametrize(
    "asked", [{"DLQUEUE_NUM_WORKERS": "8"}, {"DLQUEUE_AUTOTUNE": "1"}], ids=["set", "tuned"]
)
def test_batches_find_shared_memory(
    environment: Environment, tmp_path: Path, asked: dict[str, str]
) -> None:
    """Eight workers' batches would fill /dev/shm, and what a worker cannot write ends the job."""
    if subprocess.run([*SMALL_SHM, "sh", "true"], capture_output=True, check=False).returncode:
        pytest.skip("needs a mount namespace of its own")
    done = subprocess.run(
        [*SMALL_SHM, "sh", sys.executable, *QUICKLY, CROWDED, "large_batches"],
        env=environment(tmp_path / "run", **asked),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")
    assert only_loader(tmp_path / "run")["gate"] <= 2


def test_workers_that_cannot_start_are_not_tried_again(
    environment: Environment, python: Python, tmp_path: Path
) -> None:
    """The user's own take their place without a word, in this pass and in all later ones."""
    env = environment(tmp_path / "run", DLQUEUE_NUM_WORKERS="16")
    done = python(["-m", CROWDED, "few_files"], env)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")
    row = only_loader(tmp_path / "run")
    assert row["fallback"].startswith("workers could not start: ")
    assert (row["started_workers"], row["gate"], row["most_workers"]) == (2, None, None)
