"""Predict answers for this cluster, and says so of a job that goes to another one."""

from pathlib import Path

import pytest

from slurm_ext.cli import main
from slurm_ext.cli.predict.refusal import must_stay
from slurm_ext.cli.predict.script_file import submission
from slurm_ext.core.errors import InputError
from slurm_ext.core.settings.document import Settings

SITE = Settings("x", {"site.cluster": "Cpu", "paths.slurm_bin": "/nowhere"})


@pytest.fixture(autouse=True)
def _own_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    """A shell that names no cluster."""
    for name in ("SLURM_CLUSTERS", "SBATCH_CLUSTERS"):
        monkeypatch.delenv(name, raising=False)


def goes(folder: Path, header: str, *typed: str, site: Settings = SITE) -> str:
    """What is said of a script with this header."""
    script = folder / "job.sh"
    script.write_text(f"#!/bin/sh\n{header}\npython train.py -M gpu\n")
    try:
        must_stay(site, submission(str(script), ()), (*typed, "job.sh", "-Mx") if typed else ())
    except InputError as error:
        return error.why
    return ""


@pytest.mark.parametrize(
    "header",
    [
        "#SBATCH -M gpu",
        "#SBATCH -c 2 -Mgpu --mem=4G",
        "#SBATCH --cluster gpu",
        "#SBATCH --clusters=cpu\n#SBATCH --clusters=gpu",
    ],
)
def test_a_job_of_another_cluster_is_named(tmp_path: Path, header: str) -> None:
    """However the script says it."""
    assert goes(tmp_path, header).startswith("is for cluster gpu (--clusters): ask the dlqueue")


@pytest.mark.parametrize(
    "header",
    ["", "#SBATCH -M cpu", "#SBATCH --clusters=CPU", "#SBATCH -c 2 # or -M gpu", "##SBATCH -M gpu"],
)
def test_a_job_of_this_cluster_is_answered(tmp_path: Path, header: str) -> None:
    """A script that names none, or this one in any spelling; comments name none."""
    assert goes(tmp_path, header) == ""


def test_the_option_counts_that_sbatch_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is typed before what the environment says, and that before the script."""
    monkeypatch.setenv("SBATCH_CLUSTERS", "gpu")
    assert "cluster gpu" in goes(tmp_path, "#SBATCH -M cpu")
    monkeypatch.setenv("SLURM_CLUSTERS", "tpu")
    assert "cluster tpu" in goes(tmp_path, "#SBATCH -M cpu")
    assert goes(tmp_path, "#SBATCH -M gpu", "-c2", "-M", "cpu") == ""
    assert "cluster fpga" in goes(tmp_path, "", "-Mfpga")


def test_slurms_own_name_is_this_clusters(tmp_path: Path) -> None:
    """Where the settings name another or none; where nobody knows it, the job is answered."""
    scontrol = tmp_path / "scontrol"
    scontrol.write_text("#!/bin/sh\necho 'ClusterName             = cpu'\n")
    scontrol.chmod(0o755)
    (tmp_path / "slurm.conf").write_text("")
    paths = {
        "paths.slurm_bin": str(tmp_path),
        "paths.slurm_conf": str(tmp_path / "slurm.conf"),
    }
    for names in ({}, {"site.cluster": "cluster"}):
        site = Settings("x", {**paths, **names})
        assert goes(tmp_path, "#SBATCH -M cpu", site=site) == ""
        assert goes(tmp_path, "#SBATCH -M gpu", site=site).endswith("there; this is cpu")
    nobody = Settings("x", {"paths.slurm_bin": "/nowhere"})
    assert goes(tmp_path, "#SBATCH -M gpu", site=nobody) == ""


@pytest.mark.parametrize(
    ("ours", "words"),
    [
        ([], ["job.sh"]),
        ([], ["sbatch", "-Mgpu", "own.sh"]),
        (["--what-if"], ["job.sh"]),
        (["--ood"], ["job.sh"]),
    ],
)
def test_the_command_ends_with_that_sentence(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    ours: list[str],
    words: list[str],
) -> None:
    """Numbers of this cluster would say nothing of a job there."""
    monkeypatch.chdir(tmp_path)
    for name, header in (("job.sh", "#SBATCH -M gpu\n"), ("own.sh", "")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{header}true\n")
    config = tmp_path / "dlqueue.toml"
    config.write_text(
        '[site]\ncluster = "cpu"\n'
        f'[paths]\nstate_dir = "{tmp_path}"\nsocket = "{tmp_path}/none.sock"\n'
        'slurm_bin = "/nowhere"\n'
    )
    assert main(["predict", *ours, "--config", str(config), *words]) == 1
    told = capsys.readouterr()
    assert (told.out, "is for cluster gpu" in told.err) == ("", True)
