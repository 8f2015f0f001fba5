"""`install` and `uninstall` beside a Slurm that runs: what it still needs stays."""

from pathlib import Path

import pytest

from slurm_ext.cli import main

SCONTROL = """\
#!/bin/sh
if [ "$1" = show ]; then
  for key in Prolog Epilog TaskProlog; do
    grep -q "^$key=" {folder}/running || echo "$key = (null)"
  done
  exec sed s/=/\\ =\\ / {folder}/running
fi
[ -e {folder}/fails ] && {{ echo 'scontrol: error: no contact' >&2; exit 1; }}
[ -e {folder}/deaf ] || grep -v '^#' {folder}/slurm.conf > {folder}/running
"""


class Running:
    """A Slurm of which only scontrol is there: it takes up slurm.conf when it is told to."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.conf = folder, folder / "slurm.conf"
        self.launcher = folder / "dlqueue" / "hooks" / "site_prolog"
        self.conf.write_text("Prolog=/site/prolog\nPrologFlags=Alloc\n")
        (folder / "running").write_text(self.conf.read_text())
        command = folder / "scontrol"
        command.write_text(SCONTROL.format(folder=folder))
        command.chmod(0o755)
        (folder / "dlqueue").mkdir()
        values = {"slurm_bin": folder, "slurm_conf": self.conf, "state_dir": folder / "state"}
        text = "".join(f'paths.{key} = "{value}"\n' for key, value in values.items())
        (folder / "dlqueue" / "dlqueue.toml").write_text(text)

    def run(self, *words: str) -> int:
        """The command's exit status."""
        return main([*words, "--config", str(self.folder / "dlqueue" / "dlqueue.toml")])


@pytest.fixture
def running(tmp_path: Path) -> Running:
    """With a prolog of its own."""
    return Running(tmp_path)


def test_a_launcher_that_slurm_still_runs_stays(
    running: Running, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without its prolog a node is drained: it goes when Slurm has read slurm.conf again."""
    before = running.conf.read_bytes()
    assert running.run("install", "hooks", "--reconfigure") == 0
    assert running.run("uninstall") == 0
    assert running.conf.read_bytes() == before
    assert running.launcher.exists()
    assert "`dlqueue uninstall` again" in capsys.readouterr().out
    (running.folder / "running").write_bytes(before)  # somebody ran `scontrol reconfigure`
    assert running.run("uninstall") == 0
    assert not running.launcher.exists()


def test_a_launcher_goes_at_once_where_slurm_was_told(running: Running) -> None:
    """`--reconfigure` has Slurm forget it first."""
    assert running.run("install", "hooks", "--reconfigure") == 0
    assert str(running.launcher) in (running.folder / "running").read_text()
    assert running.run("uninstall", "--reconfigure") == 0
    assert not running.launcher.parent.exists()


@pytest.mark.parametrize("fault", ["fails", "deaf"])
def test_what_slurm_does_not_take_is_put_back(
    running: Running, capsys: pytest.CaptureFixture[str], fault: str
) -> None:
    """It refuses, or says afterwards that nothing changed: slurm.conf is as it was before."""
    before = running.conf.read_bytes()
    (running.folder / fault).touch()
    assert running.run("install", "hooks", "--reconfigure") == 1
    assert "put back" in capsys.readouterr().err
    assert running.conf.read_bytes() == before
    assert running.launcher.exists()
    assert running.run("uninstall") == 0
    assert not running.launcher.exists()
