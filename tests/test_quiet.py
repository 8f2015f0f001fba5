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
def test_a_turn_within_a_turn_is_the_same_one(first: bool, again: bool) -> None:
    """A failed test of a whole node runs again in its own turn, and does not wait for itself."""
    run = {**os.environ, "PYTEST_XDIST_TESTRUNUID": f"{os.getpid()}-{first}-{again}"}  # not ours
    code = f"with turn(alone={first}), turn(alone={again}): pass\nwith turn(alone=True): pass"
    subprocess.run(
        [sys.executable, "-c", f"from tests.quiet import turn\n{code}"],
        cwd=ROOT,
        env=run,
        check=True,
        timeout=STUCK_S,
    )
