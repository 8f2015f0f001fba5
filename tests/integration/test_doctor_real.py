"""doctor beside a real Slurm."""

import json
import sys
from typing import Any

import pytest

from slurm_ext.sandbox import Sandbox
from tests.conftest import MakeSandbox

pytestmark = pytest.mark.slurm


def findings(slurm: Sandbox) -> dict[str, dict[str, Any]]:
    """What doctor says inside, and its exit status as the finding `exit`."""
    done = slurm.run([sys.executable, "-m", "slurm_ext.cli", "doctor", "--json"], check=False)
    said = {each["name"]: each for each in json.loads(done.stdout)["findings"]}
    return {**said, "exit": {"status": done.returncode}}


def test_a_whole_and_a_broken_installation(make_sandbox: MakeSandbox) -> None:
    """All is well with everything wired in; then a file is lost, of which Slurm says nothing."""
    slurm = make_sandbox(hooks=True, lua=True, advisor=True)
    said = findings(slurm)
    wired = ("JobSubmitPlugins", "Prolog", "Epilog", "TaskProlog", "PrologFlags", "SlurmUser")
    files = ("job_submit.lua", "dlqueue.lua", "job_submit/lua", "luasocket", "advisor")
    assert {name: said[name]["status"] for name in wired + files} == dict.fromkeys(
        wired + files, "ok"
    )
    assert said["exit"]["status"] == 0
    slurm.path("etc/lua/dlqueue_settings.lua").unlink()
    job_id, _ = slurm.sbatch("--wrap", "true")
    assert slurm.wait(job_id) == "COMPLETED"
    broken = findings(slurm)
    assert broken["dlqueue.lua"]["status"] == "fail"
    assert broken["exit"]["status"] == 1


def test_a_plain_slurm(sandbox: Sandbox) -> None:
    """Where nothing of ours is wired in yet, each step to take is named, and nothing fails."""
    said = findings(sandbox)
    for name in ("JobSubmitPlugins", "Prolog", "Epilog", "TaskProlog", "PrologFlags"):
        assert said[name]["status"] == "warn"
    assert "INSTALL.md" in said["Prolog"]["advice"]
    assert said["jobs' cores"]["status"] == "warn"  # the sandbox constrains none
    assert said["exit"]["status"] == 0
