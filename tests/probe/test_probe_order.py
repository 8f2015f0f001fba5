"""Any loader, gate schedule and moment of failure: each sample once, in the user's order."""

from pathlib import Path

import pytest
from hypothesis import settings

from tests.probe.conftest import Environment, Python


@pytest.mark.hypothesis
def test_order_and_exactly_once_whatever_happens(
    tmp_path: Path, environment: Environment, python: Python
) -> None:
    """Any workers, batch size, shuffle, drop_last, gate schedule, and any moment of failure."""
    env = environment(tmp_path / "run", DLQUEUE_NUM_WORKERS="3", DLQUEUE_SEEDED="allow")
    if settings().derandomize:
        env["SAME_EXAMPLES"] = "1"
    done = python([str(Path(__file__).parent / "order_property.py")], env)
    assert (done.returncode, done.stdout) == (0, "held\n"), done.stderr
