"""Workers are added to an iterator in the middle of its pass, and nothing else changes."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

SCRIPT = str(Path(__file__).parent / "growth_scenarios.py")
Environment = Callable[..., dict[str, str]]
Python = Callable[..., subprocess.CompletedProcess[str]]
Grown = Callable[[str], dict[str, Any]]


@pytest.fixture
def grown(tmp_path: Path, environment: Environment, python: Python) -> Grown:
    """What a scenario says of itself under the probe, started with one worker at work."""

    def run(name: str) -> dict[str, Any]:
        env = environment(tmp_path / "run", DLQUEUE_NUM_WORKERS="1", PYTHONWARNINGS="ignore")
        done = python([SCRIPT, name], env)
        assert (done.returncode, done.stderr) == (0, "")
        (path,) = (tmp_path / "run").glob("summary-*.json")
        assert json.loads(path.read_text())["faults"] == []
        assert not list((tmp_path / "run").glob("fetch-*"))
        return dict(json.loads(done.stdout))

    return run


@pytest.mark.parametrize("name", ["new_each_epoch", "behind_none"])
def test_two_more_work_within_the_pass(grown: Grown, name: str) -> None:
    """Every sample once and in order; three workers make the second half, one made the first."""
    answer = grown(name)
    assert (answer["in_order"], answer["added"], answer["makers"][1]) == (True, 2, 3)


def test_persistent_ones_stay_for_the_next_epoch(grown: Grown) -> None:
    """All three live on, and deliver the second epoch."""
    answer = grown("persistent")
    assert (answer["in_order"], answer["added"], answer["kept"]) == (True, 2, 3)


def test_a_new_worker_may_be_set_up_first(grown: Grown) -> None:
    """What the caller wants done comes before the first batch, in the new ones alone."""
    answer = grown("set_up_first")
    assert (answer["added"], answer["begun"]) == (2, [1, 2])


def test_no_worker_is_spawned_within_a_pass(grown: Grown) -> None:
    """Spawning copies the dataset through a pipe while the loop stands: none is added."""
    answer = grown("spawned_ones_wait")
    assert (answer["in_order"], answer["added"], answer["makers"][1]) == (True, 0, 1)
