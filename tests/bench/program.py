"""Starts a benchmark as people do."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run_bench(name: str, *args: str | Path) -> "subprocess.CompletedProcess[str]":
    """Run `python -m contrib.bench.NAME` in the project's root, whatever its exit status."""
    command = [sys.executable, "-m", f"contrib.bench.{name}", *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
