"""Workers are added to an iterator in the middle of its pass, and nothing else changes."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.probe.conftest import Environment, Python
from tests.probe.in_children import answers

CHANGED = (
    "changed_by_a_seeded_loop",
    "changed_where_workers_are_lent",
    "changed_beside_a_settled_tuner",
)
NAMES = (
    *("new_each_epoch", "behind_none", "persistent", "set_up_first", "spawned_ones_wait"),
    *("slow_to_start", "numbered_as_written"),
    *CHANGED,
)
Grown = Callable[[str], Any]


@pytest.fixture(scope="module")
def grown(
    tmp_path_factory: pytest.TempPathFactory, environment: Environment, python: Python
) -> Grown:
    """What a scenario says of itself under the probe, started with one worker at work."""
    run_dir = tmp_path_factory.mktemp("grown") / "run"
    env = environment(run_dir, DLQUEUE_NUM_WORKERS="1", PYTHONWARNINGS="ignore")
    done = python(["-m", "tests.probe.growth_scenarios", *NAMES], env)
    assert (done.returncode, done.stderr) == (0, "")
    told = answers(done.stdout, run_dir)
    return lambda name: told[name][0]


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
    assert (answer["added"], answer["begun"]) == (2, 2)


def test_workers_that_are_added_have_the_users_numbers(grown: Grown) -> None:
    """A dataset that has a handle for each of its workers finds it in those, too."""
    assert grown("numbered_as_written") == [2, [1]]


def test_all_that_were_told_start_where_forks_are_slow(grown: Grown) -> None:
    """The training waits for a part of them, and for the others later in the pass: none is lost."""
    answer = grown("slow_to_start")
    assert (answer["in_order"], answer["makers"][1]) == (True, 4)


def test_no_worker_is_spawned_within_a_pass(grown: Grown) -> None:
    """Spawning copies the dataset through a pipe while the loop stands: none is added."""
    answer = grown("spawned_ones_wait")
    assert (answer["in_order"], answer["added"], answer["makers"][1]) == (True, 0, 1)


@pytest.mark.parametrize("name", CHANGED)
def test_no_worker_knows_what_the_loop_changed_since_the_first(grown: Grown, name: str) -> None:
    """One that is forked later would: where the loop changes the dataset, none is added."""
    assert grown(name) == [0]
