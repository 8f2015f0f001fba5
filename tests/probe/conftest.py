"""Runs a Python the way a job's is run: the probe's site folder on PYTHONPATH."""

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SITE = ROOT / "slurm_ext" / "probe" / "site"
QUICKLY = ("-m", "tests.probe.quickly")  # starts one of our own programs, which all import torch


Environment = Callable[..., dict[str, str]]
Python = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def environment() -> Environment:
    """The environment of a job, with the task prolog's additions where a run folder is given."""
    return _environment


@pytest.fixture(scope="session")
def python() -> Python:
    """Runs Python to its end with arguments, an environment and, if not this one, an executable."""
    return _python


def _environment(run_dir: Path | None, **extra: str) -> dict[str, str]:
    env = {
        k: v for k, v in os.environ.items() if not k.startswith(("DLQUEUE_", "SLURM_", "PYTHON"))
    }
    if run_dir is not None:
        run_dir.mkdir(mode=0o700, exist_ok=True)
        env.update(PYTHONPATH=str(SITE), DLQUEUE_RUN_DIR=str(run_dir))
    return {**env, **extra}


def _python(
    args: Sequence[str], env: dict[str, str], executable: str = sys.executable
) -> subprocess.CompletedProcess[str]:
    ours = list(args[:1]) == ["-m"] and args[1].startswith("tests.probe.")
    return subprocess.run(
        [executable, *((*QUICKLY, *args[1:]) if ours else args)],
        env=env,
        cwd=ROOT,  # scenarios are started by `-m tests.probe.NAME`
        capture_output=True,
        text=True,
        timeout=390,
        check=False,
    )
