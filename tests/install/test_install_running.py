"""`install` and `uninstall` beside a Slurm that runs: what it still needs stays."""

import socket
from pathlib import Path

import pytest

from slurm_ext.cli import main

SCONTROL = """\
#!/bin/sh
[ "$1 $2" = "show node" ] && exec cat {folder}/nodes
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
        (folder / "nodes").write_text("NodeName=n1 NodeHostName=n1\nNodeName=n2 NodeHostName=n2\n")
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
    assert running.run("uninstall", "--dry-run") == 0
    assert running.run("uninstall") == 3
    assert running.conf.read_bytes() == before
    assert running.launcher.exists()
    assert "`dlqueue uninstall` again" in capsys.readouterr().out
    (running.folder / "running").write_bytes(before)  # somebody ran `scontrol reconfigure`
    assert running.run("uninstall") == 0
    assert not running.launcher.exists()


@pytest.mark.parametrize("site", ["configless", "one machine"])
def test_a_launcher_goes_at_once_where_every_node_was_told(running: Running, site: str) -> None:
    """`--reconfigure` has Slurm forget it first, where nodes have no slurm.conf of their own."""
    if site == "configless":
        text = running.conf.read_text()
        running.conf.write_text(
            f"{text}SlurmctldParameters=power_save_interval=9,Enable_Configless\n"
        )
    else:
        nodes = f"NodeName=n1 NodeAddr=127.0.0.1 NodeHostName={socket.gethostname()} Port=1\n"
        (running.folder / "nodes").write_text(nodes)
    assert running.run("install", "hooks", "--reconfigure") == 0
    assert str(running.launcher) in (running.folder / "running").read_text()
    assert running.run("uninstall", "--reconfigure") == 0
    assert not running.launcher.parent.exists()


def test_a_launcher_stays_where_nodes_may_have_copies_of_slurm_conf(
    running: Running, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of copies slurmctld knows nothing: they are renewed first, then the same command ends it."""
    before = running.conf.read_bytes()
    assert running.run("install", "hooks", "submit", "--reconfigure") == 0
    capsys.readouterr()
    assert running.run("uninstall", "hooks", "--reconfigure") == 3
    told = capsys.readouterr().out
    assert f"copy {running.conf} to every node" in told
    assert "then `dlqueue uninstall hooks` again: Slurm may still run site_prolog\n" in told
    assert str(running.launcher) not in (running.folder / "running").read_text()
    assert running.run("install") == 0
    assert running.launcher.exists()
    assert running.run("uninstall", "hooks", "--reconfigure") == 0
    assert not running.launcher.exists()
    assert running.run("uninstall", "--reconfigure") == 0
    assert running.conf.read_bytes() == before


def test_hooks_that_no_step_takes_away_hold_nothing_up(
    running: Running, capsys: pytest.CaptureFixture[str]
) -> None:
    """The step `files` writes some: another step goes without them, whoever may run them."""
    assert running.run("install", "submit") == 0
    (running.folder / "scontrol").unlink()
    assert running.run("uninstall", "submit") == 0
    assert "again" not in capsys.readouterr().out


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
