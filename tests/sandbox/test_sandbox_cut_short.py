"""An `up` that is cut short, or cannot be, leaves nothing in the way of the next one."""

import os
from pathlib import Path

import pytest

from slurm_ext.cli import main
from slurm_ext.core.errors import SandboxError
from slurm_ext.sandbox import Sandbox
from slurm_ext.sandbox.folder import default_root


class ReachedTheDaemonsError(Exception):
    """Raised in place of starting anything."""


@pytest.fixture
def home(short_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for sandboxes, on a machine that has Slurm."""
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.setattr("slurm_ext.sandbox.folder.gettempdir", lambda: str(short_folder))
    monkeypatch.setattr("tempfile.tempdir", str(short_folder))
    monkeypatch.setattr("slurm_ext.sandbox.spec.shutil.which", lambda name, path: name)
    monkeypatch.setattr("slurm_ext.sandbox.plan.slurm_version", lambda: (22, 5))
    return short_folder


def interrupted(*_: object) -> None:
    """Stand in for Ctrl-C."""
    raise KeyboardInterrupt


def unstarted(*_: object) -> None:
    """Stand in for the start of the supervisor."""
    raise ReachedTheDaemonsError


def interrupt_up(home: Path, name: str) -> None:
    """Press Ctrl-C while `up` calls this function."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(f"slurm_ext.sandbox.{name}", interrupted)
        with pytest.raises(KeyboardInterrupt):
            Sandbox(home / "dlqueue-sandbox-1").up()


@pytest.mark.parametrize("name", ["render._write", "sandbox.make_state"])
def test_an_up_that_is_interrupted_is_no_obstacle_to_the_next(
    name: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is a sandbox from its first file on, so that `up` builds it anew."""
    interrupt_up(home, name)
    monkeypatch.setattr("slurm_ext.sandbox.control.launch", unstarted)
    with pytest.raises(ReachedTheDaemonsError):
        Sandbox(home / "dlqueue-sandbox-1").up()


def test_an_up_that_is_interrupted_can_be_taken_down(home: Path) -> None:
    """`dlqueue sandbox down` finds and removes its folder."""
    interrupt_up(home, "render._write")
    assert main(["sandbox", "down"]) == 0
    assert default_root() is None


def test_a_user_without_a_name_is_told_so_before_anything_is_made(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A container's bare number of a user has no entry in /etc/passwd."""

    def unknown(uid: int) -> None:
        raise KeyError(f"getpwuid(): uid not found: {uid}")

    monkeypatch.setattr("pwd.getpwuid", unknown)
    assert main(["sandbox", "up"]) == 1
    assert f"user {os.geteuid()} has no name on this machine" in capsys.readouterr().err
    assert not list(home.iterdir())


def test_files_of_something_else_are_said_to_be_in_the_way(home: Path) -> None:
    """It does not advise the very `up` that was typed."""
    (home / "thesis.tex").write_text("years")
    with pytest.raises(SandboxError, match="is no sandbox and has files: choose another folder"):
        Sandbox(home).up()
