"""Colours are for terminals whose user wants them."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

ESCAPE = b"\x1b["


def around(folder: Path) -> dict[str, str]:
    """This process's environment, without what it says itself of colours."""
    kept = {name: value for name, value in os.environ.items() if not name.endswith("_COLOR")}
    return {**kept, "DLQUEUE_CONFIG": str(folder / "none")}


def shown(folder: Path, **env: str) -> bytes:
    """What `dlqueue doctor` prints to a terminal."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "slurm_ext.cli", "doctor"]
    given = {**around(folder), "TERM": "xterm-256color", **env}
    child = subprocess.Popen(command, stdout=theirs, stderr=theirs, stdin=theirs, env=given)
    os.close(theirs)
    found = b""
    try:
        while part := os.read(ours, 65536):
            found += part
    except OSError:  # EIO: the other end is closed
        pass
    finally:
        os.close(ours)
        child.wait(timeout=60)
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With settings that are the defaults."""
    path = tmp_path_factory.mktemp("colour")
    (path / "none").write_text("")
    return path


def test_a_terminal_gets_colours_and_one_that_wants_none_gets_none(folder: Path) -> None:
    """https://no-color.org: NO_COLOR set, to whatever, switches them off."""
    assert b"\x1b[3" in shown(folder) or b"\x1b[1;3" in shown(folder)
    plain = shown(folder, NO_COLOR="1")
    assert plain
    assert b"\x1b[3" not in plain
    assert b"\x1b[1;3" not in plain


def test_a_pipe_gets_no_escape_at_all(folder: Path) -> None:
    """Nor does a file."""
    command = [sys.executable, "-m", "slurm_ext.cli", "doctor"]
    done = subprocess.run(command, capture_output=True, env=around(folder), timeout=60)
    assert done.stdout
    assert ESCAPE not in done.stdout + done.stderr
