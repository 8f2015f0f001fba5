"""A loader finds its own worker count in its first run, and delivers what it always did."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from slurm_ext.probe.tuner.autotune import LEAST_WAIT
from tests.probe.conftest import Environment, Python
from tests.probe.in_children import answers

ON = {"DLQUEUE_AUTOTUNE": "1", "PYTHONWARNINGS": "ignore"}
NAMES = (
    "waits_at_home",
    "waits_with_one",
    "short_epochs",
    "does_not_wait",
    "has_too_many",
    "stream",
    "draws_with_a_seed",
    "ruled_by_a_file",
)
Told = dict[str, tuple[dict[str, Any], dict[str, Any]]]
Ran = Callable[..., Told]


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory, environment: Environment, python: Python) -> Ran:
    """What scenarios say of themselves, and their loaders' rows in the summaries."""

    def run(*names: str, **extra: str) -> Told:
        run_dir = tmp_path_factory.mktemp("tuned") / "run"
        words = ["-m", "tests.probe.tuned_scenarios", *names]
        done = python(words, environment(run_dir, **{**ON, **extra}))
        assert (done.returncode, done.stderr) == (0, "")
        told = answers(done.stdout, run_dir)
        return {name: (said, summary["loaders"][0]) for name, (said, summary) in told.items()}

    return run


@pytest.fixture(scope="module")
def tuned(ran: Ran) -> Told:
    """Each scenario, by its name."""
    return ran(*NAMES)


def _unhindered(
    tuned: Told, ran: Ran, name: str, own: int
) -> tuple[dict[str, Any], dict[str, Any]]:
    """A run that does not wait as written: one that is robbed of its core does, and is helped."""
    for again in (False, True):
        answer, row = (ran(name) if again else tuned)[name]
        waits = [one["wait"] for one in row["tuned"]["rates"] if one["workers"] == own]
        if waits and waits[0] <= LEAST_WAIT:
            return answer, row
    pytest.skip("the machine was so busy that every run waited")


@pytest.mark.parametrize("name", ["waits_at_home", "waits_with_one"])
def test_one_that_waits_gets_the_workers_it_needs(tuned: Told, name: str) -> None:
    """80 ms of waiting for a step of 20: four workers or a few more, whatever it began with."""
    answer, row = tuned[name]
    assert answer["in_order"]
    assert answer["most"] >= 3
    assert 1 < len(row["tuned"]["rates"]) <= 9


def test_short_epochs_are_measured_whole(tuned: Told) -> None:
    """Epochs of a second, each with workers of its own: more than the author's count is tried."""
    answer, row = tuned["short_epochs"]
    assert answer["in_order"]
    assert len(row["tuned"]["rates"]) > 1


def test_one_that_does_not_wait_is_left_alone(tuned: Told, ran: Ran) -> None:
    """No worker is ever started, and one count was measured."""
    answer, row = _unhindered(tuned, ran, "does_not_wait", own=0)
    assert answer == {"in_order": True, "most": 0}
    assert (row["method"], [one["workers"] for one in row["tuned"]["rates"]]) == ("own", [0])


def test_fewer_work_where_the_same_rate_comes_from_fewer(tuned: Told, ran: Ran) -> None:
    """Eight that work a quarter of one worker's time: a few stay, and the rate with them."""
    answer, row = _unhindered(tuned, ran, "has_too_many", own=8)
    assert answer["in_order"]
    assert row["tuned"]["workers"] <= 4


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("stream", "iterable dataset"),
        ("draws_with_a_seed", "pinned seeds (DLQUEUE_SEEDED=allow lifts this)"),
    ],
)
def test_what_is_left_alone_is_left_alone(tuned: Told, name: str, why: str) -> None:
    """The probe's refusals hold for the tuner: nothing starts, and the summary says why."""
    answer, row = tuned[name]
    assert answer == {"in_order": True, "most": 0}
    assert row["left_alone"] == why


def test_the_file_decides_while_it_is_there(tuned: Told) -> None:
    """Two, as it says, and the tuner measures nothing."""
    answer, row = tuned["ruled_by_a_file"]
    assert (answer["in_order"], row["gate"]) == (True, 2)
    assert row["tuned"]["rates"] == []


def test_the_users_word_wins(ran: Ran) -> None:
    """DLQUEUE_AUTOTUNE=0: as written."""
    answer, row = ran("short_epochs", DLQUEUE_AUTOTUNE="0")["short_epochs"]
    assert (answer["most"], row["method"], row["tuned"]) == (0, "own", None)


@pytest.mark.hypothesis
def test_every_sample_once_whatever_is_asked(
    tmp_path: Path, environment: Environment, python: Python
) -> None:
    """Random askings: more and fewer within the pass, home and out again."""
    env = environment(tmp_path / "run", **ON, DLQUEUE_SEEDED="allow")
    if settings().derandomize:
        env["SAME_EXAMPLES"] = "1"
    done = python(["-m", "tests.probe.asking_property"], env)
    assert (done.returncode, done.stdout) == (0, "held\n"), done.stderr
