"""What a site is told to copy into slurm.conf and gres.conf works, and is what the sandbox uses."""

from pathlib import Path

import pytest

from slurm_ext.sandbox import Sandbox, SandboxSpec

pytestmark = pytest.mark.slurm
SITE = Path(__file__).parents[2] / "site_config" / "slurm"


def lines_of(text: str) -> list[str]:
    """Without comments and blank lines."""
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def test_the_fragment_of_slurm_conf_wires_dlqueue_in(short_folder: Path) -> None:
    """A plain cluster with only the fragment's lines runs our hooks and our Lua."""
    root = short_folder / "s"
    fragment = (SITE / "slurm.conf").read_text().replace("/etc/dlqueue/hooks", f"{root}/etc")
    with Sandbox(root, SandboxSpec(slurm_conf=fragment), temporary=True) as sandbox:
        job, _ = sandbox.sbatch("--wrap", "printenv DLQUEUE_RUN_DIR")
        assert sandbox.wait(job) == "COMPLETED"
        assert sandbox.output(job).strip() == f"{root}/nodes/n1/dlqueue/run/{job}.0"
        assert sandbox.status()["nodes"] == {"n1": "idle"}
        config = sandbox.run(["scontrol", "show", "config"]).stdout
        assert "JobSubmitPlugins        = lua" in config


def test_the_fragment_of_gres_conf_is_the_sandboxs_own(short_folder: Path) -> None:
    """The shares that a site is told to configure are those that the tests share GPUs by."""
    root = short_folder / "s"
    with Sandbox(root, SandboxSpec(gpus=4, sharing="mps"), temporary=True) as sandbox:
        rendered = sandbox.path("etc/gres.conf").read_text().replace(f"{root}/dev", "/dev")
        assert lines_of(rendered) == lines_of((SITE / "gres.conf").read_text())
        assert sandbox.run(["sinfo", "-h", "-o", "%G"]).stdout == "gpu:4,mps:400\n"
