"""A Slurm with a prefix of its own: no setting names it, and records are whole all the same."""

import os
import shutil
from pathlib import Path

import pytest

from slurm_ext.node.record.reader import read_record
from tests.conftest import MakeSandbox
from tests.whole import until

pytestmark = pytest.mark.slurm

COMMANDS = ("sbatch", "scontrol", "sinfo", "scancel", "srun")
DAEMONS = ("slurmctld", "slurmd")


@pytest.fixture
def prefix(short_folder: Path) -> Path:
    """Slurm's programs below a folder; its squeue keeps count of its calls."""
    for folder, names in (("bin", COMMANDS), ("sbin", DAEMONS)):
        (short_folder / folder).mkdir()
        for name in names:
            shutil.copy(
                shutil.which(name, path="/usr/bin:/usr/sbin") or name, short_folder / folder
            )
    squeue = short_folder / "bin" / "squeue"
    squeue.write_text(f'#!/bin/sh\necho >>{short_folder}/calls\nexec /usr/bin/squeue "$@"\n')
    squeue.chmod(0o755)
    (short_folder / "calls").touch(mode=0o666)
    return short_folder


def test_a_slurm_with_a_prefix_is_found_by_hooks(
    prefix: Path, make_sandbox: MakeSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PATH leads to its commands; daemons are beside them, and hooks beside their slurmd."""
    monkeypatch.setenv("PATH", f"{prefix}/bin:{os.environ['PATH']}")
    slurm = make_sandbox(hooks=True, settings={"node.transport": "folder"})
    pid = slurm.status()["daemons"][slurm.nodes[0]]
    assert Path(f"/proc/{pid}/exe").readlink() == prefix / "sbin" / "slurmd"
    job_id, _ = slurm.sbatch("-J", "prefixed", script="#!/bin/sh\nexit 3\n")
    slurm.wait(job_id)
    spool = slurm.path("dlqueue/spool")
    until(lambda: list(spool.glob("*.json")), "no record")
    record = read_record(next(spool.glob("*.json")))
    assert (record["identity"]["job_name"], record["outcome"]["state"]) == ("prefixed", "FAILED")
    assert (prefix / "calls").read_text()
