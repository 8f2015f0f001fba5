"""What the running Slurm says after `scontrol reconfigure`, in the words of each release."""

from pathlib import Path

import pytest

from slurm_ext.core.errors import SlurmError
from slurm_ext.core.settings.document import Settings
from slurm_ext.install.running import reconfigure

SAYS = {
    "22.05": "Prolog                  = {}\nTaskProlog              = (null)\n",
    "24.11": "Prolog[0]               = {}\nTaskProlog              = (null)\n",
}


def slurm(folder: Path, said: str) -> Settings:
    """A `scontrol` that says so."""
    program = folder / "scontrol"
    program.write_text(f"#!/bin/sh\n[ $1 = show ] && cat <<'END'\n{said}END\nexit 0\n")
    program.chmod(0o755)
    return Settings(values={"paths.slurm_bin": str(folder)})


@pytest.mark.parametrize("release", SAYS)
def test_a_hook_that_runs_is_told(tmp_path: Path, release: str) -> None:
    """With or without a number; another one than was written is an error that names both."""
    settings = slurm(tmp_path, SAYS[release].format("/etc/dlqueue/hooks/prolog"))
    reconfigure(settings, tmp_path / "slurm.conf", {"Prolog": "/etc/dlqueue/hooks/prolog"})
    with pytest.raises(SlurmError, match=r"hooks/prolog, not /elsewhere"):
        reconfigure(settings, tmp_path / "slurm.conf", {"Prolog": "/elsewhere"})
    with pytest.raises(SlurmError, match=r"hooks/prolog, not \(null\)"):
        reconfigure(settings, tmp_path / "slurm.conf", {"Prolog": "(null)"})


@pytest.mark.parametrize(
    "said", ["Prolog                  = (null)\n", "EpilogMsgTime = 2000 usec\n"]
)
def test_a_hook_that_is_gone_may_not_be_told_at_all(tmp_path: Path, said: str) -> None:
    """22.05 says that there is none, 24.11 says nothing: it is gone."""
    settings = slurm(tmp_path, said)
    reconfigure(settings, tmp_path / "slurm.conf", {"Prolog": "(null)"})
    with pytest.raises(SlurmError, match=r"Prolog is \(null\), not /etc/p"):
        reconfigure(settings, tmp_path / "slurm.conf", {"Prolog": "/etc/p"})
