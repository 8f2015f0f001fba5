"""Turns of tests: a test that runs again is in its turn already."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
STUCK_S = 60  # it takes milliseconds; a lock that waits for itself takes for ever


@pytest.mark.parametrize(
    ("first", "again"), [(True, True), (False, False), (False, True), (True, False)]
)
def test_a_turn_within_a_turn_is_the_same_one(tmp_path: Path, first: bool, again: bool) -> None:
    """A failed test of a whole node runs again in its own turn, and does not wait for itself."""
    run = {**os.environ, "TMPDIR": str(tmp_path)}  # not ours
    code = f"with turn(alone={first}), turn(alone={again}): pass\nwith turn(alone=True): pass"
    subprocess.run(
        [sys.executable, "-c", f"from tests.quiet import turn\n{code}"],
        cwd=ROOT,
        env=run,
        check=True,
        timeout=STUCK_S,
    )


@pytest.mark.parametrize("workers", [0, 2])
def test_a_run_leaves_no_files_of_its_turns(tmp_path: Path, workers: int) -> None:
    """Whoever takes turns, the run's first process removes them at its end."""
    folder, test = tmp_path / "tmp", tmp_path / "test_it.py"
    folder.mkdir()
    look = f"list(pathlib.Path({str(folder)!r}).glob('dlqueue-*-turn'))"
    test.write_text(f"import pathlib\ndef test_it():\n    assert {look}\n")
    words = ["-q", f"-n{workers}", "-p", "tests.quiet", "-c", "/dev/null", str(test)]
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words],
        cwd=ROOT,
        env={**env, "TMPDIR": str(folder)},
        capture_output=True,
        text=True,
        timeout=STUCK_S,
    )
    assert done.returncode == 0, done.stdout
    assert list(folder.glob("dlqueue-*")) == []
