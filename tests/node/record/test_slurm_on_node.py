"""A hook finds squeue beside the slurmd that called it, whatever other Slurm the node has."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurm_ext.node.common import slurm_place
from slurm_ext.node.common.slurm_place import command

ROOT = Path(__file__).parents[3]
ASKS = "from slurm_ext.node.common.slurm_place import command; print(command('squeue', ''))"


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    """A Slurm with a prefix; its slurmd is a shell."""
    for folder in ("bin", "sbin"):
        (tmp_path / folder).mkdir()
    shutil.copy("/bin/sh", tmp_path / "sbin" / "slurmd")
    program(tmp_path / "bin" / "squeue")
    return tmp_path


def program(path: Path) -> str:
    """An empty program."""
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize("between", ["", "timeout 60 sh -c"])
def test_squeue_is_found_beside_the_slurmd_above(prefix: Path, between: str) -> None:
    """Also through a launcher and its time limit; slurmd gives its scripts no PATH."""
    (prefix / "ask.py").write_text(ASKS)
    hook = f"{sys.executable} {prefix}/ask.py; true"
    script = f"{between} '{hook}'; true" if between else hook
    done = subprocess.run(
        [prefix / "sbin" / "slurmd", "-c", script],
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == f"{prefix}/bin/squeue"


@pytest.fixture
def slurmd(prefix: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """That slurmd runs, and is all that this node has of Slurm; its prefix."""
    argv = [str(prefix / "sbin" / "slurmd"), "-c", "read line; true"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE) as running:
        monkeypatch.setattr(os, "listdir", lambda _: [str(running.pid)])
        monkeypatch.setattr(slurm_place, "USUAL", ())
        yield prefix
        running.communicate(b"\n")


def test_a_sampler_finds_squeue_beside_a_slurmd_that_runs(
    slurmd: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has left slurmd; any slurmd of this node will do, but none of another user's."""
    assert command("squeue", "") == f"{slurmd}/bin/squeue"
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    monkeypatch.setattr(os, "stat", lambda _: os.stat_result([0, 0, 0, 0, 999, 0, 0, 0, 0, 0]))
    assert command("squeue", "") is None


@pytest.mark.parametrize("mode", [0o777, 0o775])
@pytest.mark.parametrize("path", ["", "bin", "bin/squeue", "sbin/slurmd"])
def test_nothing_is_run_that_others_can_write(slurmd: Path, path: str, mode: int) -> None:
    """Who runs as slurmd is told a moment too late to trust: the files have to be root's."""
    (slurmd / path).chmod(mode)
    assert command("squeue", "") is None


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: gives files to another user")
@pytest.mark.parametrize("path", ["", "bin", "bin/squeue"])
def test_nothing_is_run_that_another_user_has(slurmd: Path, path: str) -> None:
    """It stays that user's to change, whoever may write it now."""
    os.chown(slurmd / path, 65534, 65534)
    assert command("squeue", "") is None


def test_a_link_is_judged_by_what_it_leads_to(slurmd: Path) -> None:
    """Root's name for a file that others can write makes it no safer."""
    (slurmd / "home").mkdir()
    (slurmd / "home").chmod(0o777)
    program(slurmd / "home" / "squeue")
    (slurmd / "bin" / "squeue").unlink()
    (slurmd / "bin" / "squeue").symlink_to(slurmd / "home" / "squeue")
    assert command("squeue", "") is None


def test_a_users_link_is_not_followed_again(slurmd: Path) -> None:
    """It leads to safe commands while they are judged, and elsewhere when one is run."""
    (slurmd / "bin").rename(slurmd / "safe")
    (slurmd / "bin").symlink_to(slurmd / "safe")
    assert command("squeue", "") == f"{slurmd}/safe/squeue"


def test_a_sticky_folder_keeps_what_is_roots(slurmd: Path) -> None:
    """Nobody else replaces root's folder in /tmp; a command in /tmp itself may be anybody's."""
    slurmd.chmod(0o1777)
    assert command("squeue", "") == f"{slurmd}/bin/squeue"
    (slurmd / "bin").chmod(0o1777)
    assert command("squeue", "") is None


def test_the_setting_counts_alone(prefix: Path) -> None:
    """No other Slurm is asked where the named folder has none."""
    assert command("squeue", str(prefix / "bin")) == f"{prefix}/bin/squeue"
    assert command("squeue", str(prefix / "sbin")) is None
