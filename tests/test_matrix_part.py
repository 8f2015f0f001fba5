"""The part of the matrix that CI runs: what is not measured is told, and what fails there fails."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.manual import ROOT

SCRIPT = Path("contrib") / "packaging" / "matrix_part.sh"
# The seconds of one call after another: ten minutes begin, a root is made, tests begin, they end.
DATE = 'n=$(cat {0}/calls); echo $((n + 1)) >{0}/calls; set -- {1}; shift "$n"; echo "$1"'


class Clone:
    """A clone whose other_slurm.sh makes no root and starts nothing, with a clock of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.packaging = folder, folder / SCRIPT.parent
        self.packaging.mkdir(parents=True)
        shutil.copy2(ROOT / SCRIPT, folder / SCRIPT)
        (folder / "calls").write_text("0")
        self.clock(0, 0, 0, 0)
        self.user(0)

    def clock(self, *seconds: int) -> None:
        """The time of each look at it."""
        words = " ".join(map(str, seconds))
        self._command(self.folder / "date", DATE.format(self.folder, words))

    def user(self, uid: int) -> None:
        """The user whom it takes itself for."""
        self._command(self.folder / "id", f"echo {uid}")

    def run(self, making: str, tests: str) -> "subprocess.CompletedProcess[str]":
        """Run it; the shell's words `making` are its root's, and `tests` the tests."""
        inside = f'[ "$2" = build/slurm/sid ] || exit 9\n[ "$3" != true ] || {{ {making}; exit; }}'
        self._command(self.packaging / "other_slurm.sh", f"{inside}\n{tests}")
        return subprocess.run(
            [self.folder / SCRIPT, "sid", "tests/test_one.py"],
            env={"PATH": f"{self.folder}:{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            timeout=100,
        )

    def _command(self, path: Path, body: str) -> None:
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    """One without a root."""
    return Clone(tmp_path)


@pytest.mark.parametrize("status", [0, 1, 2, 124])
def test_what_the_tests_say_is_its_own_status(clone: Clone, status: int) -> None:
    """A test that fails under another release fails the part, and one that passes does not."""
    done = clone.run("true", f'echo "$@"; exit {status}')
    assert done.returncode == status
    assert " .venv/bin/python -m pytest -q -x tests/test_one.py\n" in done.stdout
    assert done.stderr == ""


def test_without_a_root_nothing_is_measured(clone: Clone) -> None:
    """One line says so with the reason, and no test is begun."""
    done = clone.run("echo 1; echo 'E: no mirror answers'; exit 5", "echo begun")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == (
        "matrix: not measured under the Slurm of sid:"
        " no root was made in 10 minutes: E: no mirror answers\n"
    )


def test_a_root_that_takes_too_long(clone: Clone) -> None:
    """It is stopped when the minutes are over."""
    clone.clock(0, 599)
    done = clone.run("exec sleep 600", "echo begun")
    assert (done.returncode, done.stdout) == (0, "")
    assert "no root was made in 10 minutes" in done.stderr


@pytest.mark.parametrize("clock", [(0, 0, 599, 600), (0, 0, 600, 601)])
def test_tests_that_take_too_long(clone: Clone, clock: tuple[int, ...]) -> None:
    """They are stopped, or not begun; no verdict is made up."""
    clone.clock(*clock)
    done = clone.run("true", "exec sleep 600")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == (
        "matrix: not measured under the Slurm of sid: its tests did not end in 10 minutes\n"
    )


def test_an_ordinary_user_makes_no_root(clone: Clone) -> None:
    """That, too, is a line and no failure."""
    clone.user(1000)
    done = clone.run("echo made", "echo begun")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.endswith(": only root makes the root of another system\n")
