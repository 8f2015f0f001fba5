"""sbatch's own word on a script's options, beside what is read of them with no Slurm."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from slurm_ext.advisor.pipeline.sbatch_options import environment_options
from slurm_ext.advisor.pipeline.script import read_script

pytestmark = [
    pytest.mark.slurm,
    pytest.mark.skipif(shutil.which("sbatch") is None, reason="needs sbatch"),
]
CONF = """\
ClusterName=c
SlurmctldHost=localhost
AuthType=auth/none
NodeName=n1 CPUs=1
PartitionName=p Nodes=n1 Default=YES
"""
HEADS = {
    "indented comment": ["  # x", "#SBATCH -p a"],
    "indented option": [" #SBATCH -p a", "#SBATCH -A b"],
    "begun name": ["#SBATCH --part=a --acco b"],
    "comment in a word": ["#SBATCH --job-name=exp#3 -p z"],
    "quoted": ["#SBATCH --job-name='a # b' -A \"c d\""],
    "twice": ["#SBATCH -p a", "#SBATCH -p b"],
    "relative folder": ["#SBATCH -D runs"],
    "folder with dots": ["#SBATCH --chdir=./x/../y"],
    "after a command": ["#SBATCH -p a", "true", "#SBATCH -p b"],
    "array": ["#SBATCH -a 1-9%2", "#SBATCH --comment x"],
}
FIELDS = {
    "account": "account",
    "array": "array",
    "chdir": "work_dir",
    "comment": "comment",
    "job-name": "name",
    "partition": "partition",
}


def told_by_sbatch(folder: Path, environ: dict[str, str]) -> dict[str, str]:
    """Options that `sbatch -v` names before it asks for a controller, which is not there."""
    (folder / "slurm.conf").write_text(CONF)
    done = subprocess.run(
        ["sbatch", "-v", "job.sh"],
        cwd=folder,
        env={**os.environ, **environ, "SLURM_CONF": str(folder / "slurm.conf")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return dict(re.findall(r"^sbatch: (\S+) +: (.*)$", done.stderr, re.MULTILINE))


@pytest.mark.parametrize("exported", [{}, {"SBATCH_PARTITION": "e", "SBATCH_ACCOUNT": "f"}])
@pytest.mark.parametrize("head", HEADS.values(), ids=HEADS)
def test_a_script_is_read_as_sbatch_reads_it(
    head: list[str], exported: dict[str, str], tmp_path: Path
) -> None:
    """Every text that a prediction rests on is the one that sbatch would send."""
    text = "\n".join(["#!/bin/sh", *head, "true", ""])
    (tmp_path / "job.sh").write_text(text)
    told = told_by_sbatch(tmp_path, exported)
    options = environment_options(exported)
    job = read_script(text, "job.sh", work_dir=str(tmp_path), exported=options)
    assert "verbose" in told
    unset = {"work_dir": str(tmp_path), "name": "job.sh"}
    ours = {name: getattr(job, field) for name, field in FIELDS.items()}
    assert ours == {name: told.get(name, unset.get(field)) for name, field in FIELDS.items()}
