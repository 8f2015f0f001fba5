"""Runs a Python the way a job's is run: the probe's site folder on PYTHONPATH."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
SITE = ROOT / "slurm_ext" / "probe" / "site"
QUICKLY = ("-m", "tests.probe.quickly")  # starts one of our own programs, which all import torch

SCENARIOS = ("-m", "tests.probe.loader_scenarios")
# Groups that run from one start of Python: those of one file of tests.
_TOGETHER = (("open", "fallback"), ("alone", "changed"), ("gated", "seeded", "spawned"))

Told = dict[str, tuple[dict[str, Any], str]]
Scenarios = Callable[..., tuple[dict[str, Any], dict[str, Any], str]]

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


@pytest.fixture(scope="session")
def scenarios(tmp_path_factory: pytest.TempPathFactory) -> Scenarios:
    """Results with the probe, results without, and the probed run's stderr; each run once."""
    done: dict[tuple[Any, ...], Told] = {}

    def plain(alike: tuple[str, ...]) -> Told:
        if alike not in done:
            done[alike] = told(_python([*SCENARIOS, *alike], _environment(None)))
        return done[alike]

    def run(group: str, **extra: str) -> tuple[dict[str, Any], dict[str, Any], str]:
        together = next((one for one in _TOGETHER if group in one), (group,))
        alike = (group,) if extra else together
        key = (alike, *extra.items(), "probed")
        if key not in done:
            run_dir = tmp_path_factory.mktemp(group) / "run"
            env = _environment(run_dir, **{"DLQUEUE_NUM_WORKERS": "4", **extra})
            done[key] = told(_python([*SCENARIOS, *alike], env))
            assert not list(run_dir.glob("fetch-*")), "workers' totals are left behind"
            assert [json.loads(p.read_text())["faults"] for p in run_dir.glob("summary-*.json")]
        return done[key][group][0], plain(together)[group][0], done[key][group][1]

    return run


def told(ran: subprocess.CompletedProcess[str]) -> Told:
    """Each group's results and what it wrote to its standard error."""
    assert ran.returncode == 0, ran.stderr
    lines = map(json.loads, ran.stdout.splitlines())
    return {group: (found, said + ran.stderr) for group, found, said in lines}


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
