"""`dlqueue predict --what-if` on a real Slurm: waits, refusals, and nothing left behind."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.sandbox import Sandbox
from tests.conftest import MakeSandbox
from tests.whole import ACTING, ALIKE, WHOLE, asked, completed, teach, until

pytestmark = pytest.mark.slurm

SCRIPT = "#!/bin/bash\n#SBATCH -J known -c 2 --export=NONE -o /dev/null\ntrue\n"
LEDGER = "SELECT job_name FROM decisions"


@pytest.fixture
def slurm(make_sandbox: MakeSandbox) -> Sandbox:
    """All of dlqueue, acting, on one node of eight CPUs; jobs called `known` are known."""
    sandbox = make_sandbox(**WHOLE, gpus=2, settings=ACTING)
    teach(sandbox, "known")
    return sandbox


def what_if(slurm: Sandbox, script: Path, *words: str) -> dict[str, Any]:
    """The document that a user gets."""
    argv = [sys.executable, "-m", "slurm_ext.cli", "predict", str(script), "--json", *words]
    document: dict[str, Any] = json.loads(slurm.run(argv).stdout)
    return document


def test_slurm_says_when_each_shape_would_start_and_never_hears_of_it_again(
    slurm: Sandbox, tmp_path: Path
) -> None:
    """Idle: now. Refused: why. Behind a job: when that ends. No job, no decision, no orphan."""
    script = tmp_path / "job.sh"
    script.write_text(SCRIPT)
    idle = what_if(slurm, script, "--cores", "2,4,64", "--workers", "2")
    assert (idle["source"], idle["queue_why"], idle["runs"]) == ("advisor", None, ALIKE)
    rows = {row["cpus_per_task"]: row for row in idle["rows"] if row["num_workers"] == 2}
    assert rows[4]["wait_s"] < 600
    assert rows[64]["refused"] == "more CPUs than any node has (8)"
    (chosen,) = [row for row in idle["rows"] if "recommended" in row["marks"]]
    assert chosen["samples_per_s"] > rows[2]["samples_per_s"]
    gpus = what_if(slurm, script, "--gpus", "2,4")["rows"]
    refused = {row["gpus"]: row["refused"] for row in gpus}
    assert refused == {0: None, 2: None, 4: "more nodes than there are (1)"}
    blocking, _ = slurm.sbatch("-c8", "-t30", "-Jblocking", script="#!/bin/bash\nsleep 600\n")
    until(lambda: slurm.job(blocking)["JobState"] == "RUNNING", "the node is not taken")
    busy = what_if(slurm, script, "--what-if")
    assert all(1200 < row["wait_s"] <= 1800 for row in busy["rows"] if not row["refused"])
    slurm.run(["scancel", str(blocking)])
    later, _ = slurm.sbatch("-Jlater", script="#!/bin/bash\ntrue\n")
    completed(slurm, later)
    until(lambda: ("later",) in asked(slurm, LEDGER), "the ledger has not come so far")
    assert {name for (name,) in asked(slurm, LEDGER)} == {"blocking", "later"}
