"""A user waits for each module that a command imports: they are counted here, and not timed."""

import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
SHOWS = """
import sys
from slurm_ext.cli import main
status = main(sys.argv[1:])
print(*sys.modules)
sys.exit(status)
"""
# What takes longer to import than a bare Python to start, or a good part of that.
HEAVY = {
    "argparse",
    "asyncio",
    "click",
    "concurrent.futures",
    "dataclasses",
    "datetime",
    "decimal",
    "hashlib",
    "inspect",
    "jinja2",
    "logging",
    "matplotlib",
    "numpy",
    "pathlib",
    "plotext",
    "prometheus_client",
    "random",
    "rich",
    "socket",
    "sqlite3",
    "sqlite_utils",
    "statistics",
    "subprocess",
    "tempfile",
    "threading",
    "tomllib",
    "torch",
    "typing",
    "urllib.parse",
}
MOST_OF_PREDICT = 58  # of our modules: a new one has to be wanted here, as below
BEFORE_A_PROGRAM = {
    "slurm_ext",
    "slurm_ext.advisor",
    "slurm_ext.advisor.own_runs",
    "slurm_ext.advisor.own_runs.own_history",
    "slurm_ext.advisor.own_runs.settled",
    "slurm_ext.cli",
    "slurm_ext.cli.common",
    "slurm_ext.cli.common.commands",
    "slurm_ext.cli.common.parsers",
    "slurm_ext.cli.common.streams",
    "slurm_ext.cli.run",
    "slurm_ext.cli.run.child",
    "slurm_ext.cli.run.command",
    "slurm_ext.cli.run.probed",
    "slurm_ext.core",
    "slurm_ext.core.errors",
    "slurm_ext.core.settings",
    "slurm_ext.core.settings.own",
    "slurm_ext.node",
    "slurm_ext.node.common",
    "slurm_ext.node.common.job",
}
AFTER_IT = {
    "slurm_ext.cli.run.advice",
    "slurm_ext.cli.run.end_line",
    "slurm_ext.node.common.files",
    "slurm_ext.node.common.log",
    "slurm_ext.node.common.removal",
    "slurm_ext.node.record",
    "slurm_ext.node.record.bounds",
    "slurm_ext.node.record.fields",
    "slurm_ext.node.record.summaries",
    "slurm_ext.questions",
    "slurm_ext.questions.explain",
    "slurm_ext.questions.explain.probe",
}


@cache
def bare() -> frozenset[str]:
    """Modules of a Python that does nothing."""
    code = "import sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return frozenset(done.stdout.split())


def brought(home: Path, *words: str, status: int = 0, code: str = SHOWS) -> set[str]:
    """Those that a command of dlqueue has beside them at its end."""
    kept = {name: value for name, value in os.environ.items() if "DLQUEUE" not in name}
    done = subprocess.run(
        [sys.executable, "-c", code, *words],
        cwd=ROOT,
        env={**kept, "XDG_STATE_HOME": str(home)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == status, done.stderr
    return set(done.stdout.splitlines()[-1].split()) - bare()


def foreign(found: set[str]) -> set[str]:
    """Top packages that are neither Python's nor ours."""
    known = {
        *sys.stdlib_module_names,
        "slurm_ext",
        "org",
    }  # Jython's, for copy
    return {name.partition(".")[0] for name in found} - known


def ours(found: set[str]) -> set[str]:
    """Modules of dlqueue."""
    return {name for name in found if name.partition(".")[0] == "slurm_ext"}


def test_run_brings_next_to_nothing_along(tmp_path: Path) -> None:
    """A program of nothing pays for these modules alone; a new one has to be wanted here."""
    found = brought(tmp_path, "run", "--", sys.executable, "-c", "pass")
    assert ours(found) == BEFORE_A_PROGRAM | AFTER_IT
    assert not found & HEAVY
    assert not foreign(found)


def test_run_starts_the_program_before_it_imports_for_its_end(tmp_path: Path) -> None:
    """What cannot be started shows what came before, what says why and what removes its folder."""
    brought(tmp_path, "run", "/nowhere/train", status=127)  # makes the folder and its settings
    found = brought(tmp_path, "run", "/nowhere/train", status=127)
    removal = {"slurm_ext.node.common.removal", "slurm_ext.node.common.files"}
    assert ours(found) == BEFORE_A_PROGRAM | removal | {"slurm_ext.cli.common.not_started"}
    assert not found & {*HEAVY, "json", "re"}


def test_a_longer_program_has_its_end_prepared(tmp_path: Path) -> None:
    """Meanwhile, so that nobody waits for it; and nothing heavy is among it."""
    nap = "import time; time.sleep(1.5)"
    found = brought(tmp_path, "run", sys.executable, "-c", nap)
    assert "slurm_ext.core.stalls.step_split" in found
    assert not found & {"numpy", "matplotlib", "rich", "sqlite3", "statistics", "torch"}
    assert not foreign(found)


ASKED = (
    """
import sys
from slurm_ext.questions import client
client.ask = lambda addresses, kind, fields: {"v": 1, "jobs": [JOB], **DOCUMENT}
"""
    + SHOWS
)
JOB = {
    "job_id": 7,
    "array_job_id": None,
    "array_task_id": None,
    "job_name": "train",
    "state": "COMPLETED",
    "elapsed_s": 60.0,
    "cpus": 2,
    "gpus": 0,
    "samples_per_s": 1.5,
    **dict.fromkeys(("time", "cpu", "mem", "gpu", "wait"), 0.5),
}
DOCUMENT: dict[str, Any] = {
    **dict.fromkeys(("job", "tasks", "decision", "stragglers", "gain", "run_time")),
    "job_id": 7,
    "past": [],
    "runs": [],
    "moves": [],
}


@pytest.mark.parametrize("words", [("jobs", "--all"), ("explain", "7")])
def test_an_answer_from_elsewhere_needs_no_history_here(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    """A login node asks and prints: neither SQLite, nor rich, nor what answers, nor a Slurm."""
    config = tmp_path / "dlqueue.toml"
    config.write_text(f'[paths]\nstate_dir = "{tmp_path}"\n[advisor]\naddress = "127.0.0.1:1"\n')
    code = ASKED.replace("JOB", repr(JOB)).replace("DOCUMENT", repr(DOCUMENT))
    found = brought(tmp_path, *words, "--config", str(config), code=code)
    assert "slurm_ext.questions.client" in found
    rooms = {name.split(".")[1] for name in ours(found) if "." in name}
    assert not rooms & {"history", "model", "policy", "slurm", "control", "training"}
    unwanted = {"encodings.idna", "random", "rich", "sqlite3", "statistics", "numpy", "matplotlib"}
    assert not found & {*unwanted, "slurm_ext.core.wire"}
    assert not foreign(found)


def test_predict_brings_nothing_heavy_along(tmp_path: Path) -> None:
    """Without an advisor or a history it needs neither a database nor what draws."""
    (tmp_path / "job.sh").write_text("#!/bin/sh\n#SBATCH -c 2\npython train.py\n")
    config = tmp_path / "dlqueue.toml"
    config.write_text(f'[paths]\nstate_dir = "{tmp_path}"\nsocket = "{tmp_path}/none"\n')
    found = brought(tmp_path, "predict", str(tmp_path / "job.sh"), "--config", str(config))
    unwanted = HEAVY - {"argparse", "dataclasses", "datetime", "inspect", "pathlib"} | {"shutil"}
    assert not found & (unwanted - {"tomllib", "typing", "urllib.parse"})
    assert not foreign(found)
    assert len(ours(found)) <= MOST_OF_PREDICT
