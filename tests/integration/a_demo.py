"""The README's first command, smaller."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

# Epochs of the one that waits for nothing are long beside the start of its worker, busy or not.
SMALLER = {"EXAMPLE_SAMPLES": "320", "EXAMPLE_COMPUTE_SAMPLES": "1280"}


@pytest.fixture(scope="module")
def demo() -> Iterator[dict[str, Any]]:
    """What `dlqueue demo --json` printed, and `folder` where it left its files."""
    folder = Path(tempfile.mkdtemp(prefix="dlq-"))
    folder.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-m", "slurm_ext.cli", "demo", "--json", "--folder", str(folder)],
        env={**os.environ, **SMALLER},
        capture_output=True,
        text=True,
        timeout=390,
    )
    assert done.returncode == 0, done.stderr
    assert "once more" in done.stderr  # progress goes to stderr, stdout stays one document
    yield {**json.loads(done.stdout), "folder": folder}
    shutil.rmtree(folder)


def job(demo: dict[str, Any], name: str) -> dict[str, Any]:
    """The row of one example."""
    return next(row for row in demo["jobs"] if row["script"].startswith(name))
