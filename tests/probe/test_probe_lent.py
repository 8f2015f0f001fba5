"""Lent workers in the user's loader: at idle priority, and at work only where cores are lent."""

import os
from collections.abc import Callable
from typing import Any

import pytest

from tests.probe.conftest import Environment, Python
from tests.probe.in_children import answers

TWO_CORES = len(os.sched_getaffinity(0)) > 1
NAMES = ("no_file_that_counts", *("lent_and_taken_back", "stopped_and_killed")[: 2 * TWO_CORES])
Run = Callable[[str], dict[str, Any]]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, environment: Environment, python: Python) -> Run:
    """What a scenario says of itself under the probe."""
    run_dir = tmp_path_factory.mktemp("lent") / "run"
    env = environment(run_dir, DLQUEUE_LENT="1", PYTHONWARNINGS="ignore")
    done = python(["-m", "tests.probe.lent_scenarios", *NAMES], env)
    assert (done.returncode, done.stderr) == (0, "")
    told = answers(done.stdout, run_dir)
    return lambda name: dict(told[name][0])


@pytest.mark.skipif(not TWO_CORES, reason="needs two cores")
def test_a_lent_worker_works_while_it_has_cores(run: Run) -> None:
    """Every sample once and in order; before its cores come, and after they went, it idles."""
    answer = run("lent_and_taken_back")
    assert answer["in_order"]
    assert answer["makers"] == [[0], [0, 1], [0]]
    assert answer["idle_policy"]


def test_a_file_that_is_no_loan_changes_nothing(run: Run) -> None:
    """Texts of any kind: the user's own workers alone, every sample in order."""
    assert run("no_file_that_counts") == {"in_order": True, "workers": 1}


@pytest.mark.skipif(not TWO_CORES, reason="needs two cores")
def test_a_lent_worker_that_runs_no_more_holds_nobody(run: Run) -> None:
    """Stopped for good or killed while it holds batches: all come, in order and once, by others.

    It is stopped still when the next pass of the same workers is over, with pinned seeds: nobody
    waited for it, not at the end of a pass, and not at Python's.
    """
    assert run("stopped_and_killed") == {
        "in_order": True,
        "last_makers": 1,
        "struck": ["SIGKILL", "SIGSTOP"],
        "still_stopped": ["T"],
    }
