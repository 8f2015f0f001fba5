"""Options of PBS and LSF in a script: sbatch obeys them, and nobody predicts a job without them."""

import os
import re
import shutil
import subprocess
from itertools import takewhile
from pathlib import Path

import pytest

from slurm_ext.advisor.pipeline.sbatch_options import environment_options
from slurm_ext.advisor.pipeline.script import read_script
from slurm_ext.core.errors import InputError

CONF = """\
ClusterName=c
SlurmctldHost=localhost
AuthType=auth/none
NodeName=n1 CPUs=1
PartitionName=p Nodes=n1 Default=YES
"""
OBEYED = {  # lines below #!/bin/sh, and the number of the first that is meant
    "alone": (["#PBS -t 0-9"], 2),
    "below another": (["#SBATCH -c 2", "#PBS -t 0-9"], 3),
    "after a command": (["true", "", "#PBS -t 0-9"], 4),
    "glued": (["#PBS-t 0-9"], 2),
    "tab": (["#PBS\t-t 0-9"], 2),
    "quoted": (['#PBS "-t" 0-9'], 2),
    "ignored too late": (["#PBS -t 0-9", "true", "#SBATCH --ignore-pbs"], 2),
    "LSF": (["# x", "#BSUB -n 4"], 3),
}
NOT_OBEYED = {
    "no option": ["#PBS", "#PBS # -t 0-9"],
    "comment": ["# PBS -t 0-9", "##PBS -t 0-9", " #PBS -t 0-9", "#pbs -t 0-9"],
    "in a line": ["echo #PBS -t 0-9"],
    "ignored": ["#SBATCH --ignore-pbs", "#PBS -t 0-9", "#BSUB -n 4"],
    "ignored below": ["#PBS -t 0-9", "#SBATCH --ignore-p"],
}


def text_of(lines: list[str]) -> str:
    """A script of these lines."""
    return "\n".join(["#!/bin/sh", *lines, "true", ""])


def obeyed_by_sbatch(folder: Path, text: str, *typed: str, **environ: str) -> bool:
    """True if `sbatch -v` names an array or tasks; it is ended before it waits for a controller."""
    (folder / "slurm.conf").write_text(CONF)
    (folder / "job.sh").write_text(text)
    argv = ["sbatch", "-v", "--test-only", *typed, "job.sh"]
    env = {**os.environ, **environ, "SLURM_CONF": str(folder / "slurm.conf")}
    with subprocess.Popen(argv, cwd=folder, env=env, stderr=subprocess.PIPE, text=True) as sbatch:
        assert sbatch.stderr is not None
        told = list(takewhile(lambda line: "end of defined" not in line, sbatch.stderr))
        sbatch.kill()
    assert any("test-only" in line for line in told)
    return any(re.match("sbatch: (array|ntasks) +:", line) for line in told)


@pytest.mark.parametrize(("lines", "line"), OBEYED.values(), ids=OBEYED)
def test_options_of_another_system_are_named_by_their_line(lines: list[str], line: int) -> None:
    """The job would be an array, or of four tasks, of which #SBATCH says nothing."""
    with pytest.raises(InputError, match="which sbatch obeys and dlqueue does not read") as told:
        read_script(text_of(lines), "job.sh")
    assert told.value.line == line


@pytest.mark.parametrize("lines", NOT_OBEYED.values(), ids=NOT_OBEYED)
def test_what_sbatch_steps_over_is_stepped_over(lines: list[str]) -> None:
    """Comments that look alike, and options that are turned off, are no reason to refuse."""
    assert read_script(text_of(lines), "job.sh").array is None


@pytest.mark.parametrize("value", ["1", "0", ""])
def test_they_are_ignored_by_a_typed_option_or_a_variable(value: str) -> None:
    """The variable counts whatever it is set to."""
    text = text_of(["#PBS -t 0-9"])
    assert read_script(text, "job.sh", typed=["--ignore-pbs", "-c", "2"]).cpus_per_task == 2
    exported = environment_options({"SBATCH_IGNORE_PBS": value})
    assert read_script(text, "job.sh", exported=exported).array is None


@pytest.mark.slurm
@pytest.mark.skipif(shutil.which("sbatch") is None, reason="needs sbatch")
def test_sbatch_obeys_the_same_lines(tmp_path: Path) -> None:
    """The tables above say what sbatch does."""
    for lines, _ in OBEYED.values():
        assert obeyed_by_sbatch(tmp_path, text_of(lines)), lines
    for lines in NOT_OBEYED.values():
        assert not obeyed_by_sbatch(tmp_path, text_of(lines)), lines
    text = text_of(["#PBS -t 0-9"])
    assert not obeyed_by_sbatch(tmp_path, text, "--ignore-pbs")
    assert not obeyed_by_sbatch(tmp_path, text, SBATCH_IGNORE_PBS="")
