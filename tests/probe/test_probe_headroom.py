"""Headroom: workers that start idle and are moved by the gate file while a real training runs."""

import os
from collections.abc import Callable
from typing import Any

import pytest

from tests.probe.conftest import Environment, Python
from tests.probe.in_children import answers

PROGRAM = ("-m", "tests.probe.headroom_scenarios")
Run = Callable[..., tuple[Any, list[dict[str, Any]]]]
HEADROOM = {"DLQUEUE_MAX_WORKERS": "8", "PYTHONWARNINGS": "ignore"}
MIB = 1024 * 1024


EXPECTED = {
    "eight_two_six": [True, [2, 8, 2, 6], True],
    "below_prefetch": [True, [6, 1, 3], True],
    "persistent": [True, [5, 1, 8], 8],
    "new_sets": [True, [5, 1, 8], 0],
    "as_at_first_once_the_file_is_gone": [True, [3, 7, 3]],
    "none_until_asked": [True, True, [3, 3], "_SingleProcessDataLoaderIter"],
    "seeded_draws_stay_at_home": [True, 0],
    "batch_size_changes_half_way": [True, [4], [4]],
    "two_loaders": [True, True, 9],
    "iterable": [True, True],
    "nothing": [True, 0],
}


@pytest.fixture(scope="module")
def scenario(
    tmp_path_factory: pytest.TempPathFactory, environment: Environment, python: Python
) -> Run:
    """What a scenario says under the probe with headroom for eight, and its loaders' rows."""
    done: dict[Any, Any] = {}

    def run(name: str, **extra: str) -> tuple[Any, list[dict[str, Any]]]:
        key = tuple(extra.items())
        if key not in done:
            names = [name] if extra else [*EXPECTED, "two_that_wait"]
            folder = tmp_path_factory.mktemp("headroom") / "run"
            ran = python([*PROGRAM, *names], environment(folder, **{**HEADROOM, **extra}))
            assert (ran.returncode, ran.stderr) == (0, "")
            done[key] = answers(ran.stdout, folder)
        said, summary = done[key][name]
        return said, summary["loaders"]

    return run


@pytest.mark.parametrize(("name", "expected"), EXPECTED.items())
def test_moved_while_it_runs(scenario: Run, name: str, expected: list[Any]) -> None:
    """Every sample once and in order, and as many workers at work as the gate says."""
    said, _ = scenario(name)
    assert said == expected


def test_two_loaders_that_wait_share_the_headroom(scenario: Run) -> None:
    """One of them gets workers; both deliver what they would have, never more than eight work."""
    (right, most), rows = scenario("two_that_wait")
    assert (right, 0 < most <= 8) == (True, True)
    assert sorted(row["method"] for row in rows) == ["gated", "own"]


def test_the_summary_says_what_can_be_asked_for(scenario: Run) -> None:
    """Eight where it can be moved, though it waits without any; null where it cannot."""
    _, (waiting,) = scenario("none_until_asked")
    assert (waiting["gate"], waiting["most_workers"], waiting["left_alone"]) == (0, 8, None)
    _, (stream,) = scenario("iterable")
    assert (stream["gate"], stream["most_workers"]) == (None, None)
    assert stream["left_alone"] == "iterable dataset"


def test_no_warning_of_more_workers_than_cores(scenario: Run) -> None:
    """Torch warns of what users ask for, not of what they did not."""
    more = str((os.cpu_count() or 1) + 2)
    said, _ = scenario("warnings_are_the_users_own", DLQUEUE_MAX_WORKERS=more, PYTHONWARNINGS="")
    assert said == []


def test_a_proposal_works_at_first_and_the_rest_waits(scenario: Run) -> None:
    """DLQUEUE_NUM_WORKERS=3 of 8: three make the batches until the file says otherwise."""
    said, _ = scenario("eight_two_six", DLQUEUE_NUM_WORKERS="3")
    assert said == [True, [3, 8, 2, 6], True]


def test_no_more_are_started_than_memory_holds(scenario: Run) -> None:
    """Once a worker was seen to hold 200 MiB, a job of 1 GiB has no room for eight."""
    (_, second), rows = scenario("too_large_to_copy", SLURM_MEM_PER_NODE="1024")
    assert 1 <= second <= 4
    assert rows[0]["most_workers"] <= 4
    assert rows[0]["worker_rss_bytes"] > 200 * MIB
