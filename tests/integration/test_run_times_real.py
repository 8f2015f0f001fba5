"""Run times told on a real Slurm: jobs end, and the next one like them is told by them."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.sandbox import Sandbox
from tests.advisor.what_if.test_run_times import promote
from tests.conftest import MakeSandbox
from tests.whole import WHOLE, completed, dlqueue, history_db, until

pytestmark = pytest.mark.slurm

SCRIPT = "#!/bin/bash\n#SBATCH -J sleeper -t 30 --export=NONE -o /dev/null\nsleep 1\n"


def told(slurm: Sandbox, script: Path) -> dict[str, Any]:
    """The run time that a user gets; empty where none is told."""
    argv = [sys.executable, "-m", "slurm_ext.cli", "predict", str(script), "--json"]
    run_time: dict[str, Any] | None = json.loads(slurm.run(argv).stdout)["run_time"]
    return run_time or {}


def runs_behind(slurm: Sandbox, job: int) -> int:
    """Earlier runs that a job's run time was predicted from."""
    explained = until(
        lambda: json.loads(dlqueue(slurm, "explain", str(job), "--json"))["run_time"],
        "the submission's run time was not taken",
    )
    return int(explained["runs"])


def predicted(slurm: Sandbox) -> int | None:
    """A job that waits, whose run time was predicted when it was submitted; others are cancelled.

    The advisor takes a model a second after `predict` does.
    """
    job, _ = slurm.sbatch("--hold", script=SCRIPT)
    if runs_behind(slurm, job):
        return job
    slurm.run(["scancel", str(job)])
    return None


def test_what_ended_tells_the_next(make_sandbox: MakeSandbox, tmp_path: Path) -> None:
    """Without a model nothing is told; a promoted one is taken live, by user, name and GPUs."""
    slurm = make_sandbox(**WHOLE)
    script = tmp_path / "job.sh"
    script.write_text(SCRIPT)
    first, _ = slurm.sbatch(script=SCRIPT)
    completed(slurm, first)
    assert told(slurm, script) == {}
    promote(history_db(slurm).parent, wide=4.0)
    until(lambda: told(slurm, script).get("runs") == 1, "the model was not taken")
    second = until(lambda: predicted(slurm), "no submission was predicted by the model")
    slurm.run(["scontrol", "release", str(second)])
    completed(slurm, second)
    until(lambda: told(slurm, script).get("runs") == 2, "the second run was not taken")
    known = told(slurm, script)
    assert known["like"] == ["user", "job_name", "gpus"]
    assert known["low_s"] < known["mean_s"] < known["high_s"] <= 1800.0
    assert runs_behind(slurm, second) == 1
