"""A loader finds its own worker count in its first run, and delivers what it always did."""

import json
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.probe.tuner.autotune import LEAST_WAIT

HERE = Path(__file__).parent
Environment = Callable[..., dict[str, str]]
Python = Callable[..., subprocess.CompletedProcess[str]]
Tuned = Callable[..., tuple[dict[str, Any], dict[str, Any]]]
ON = {"DLQUEUE_AUTOTUNE": "1", "PYTHONWARNINGS": "ignore"}


@pytest.fixture
def tuned(tmp_path: Path, environment: Environment, python: Python) -> Tuned:
    """What a scenario says of itself, and its loader's row in the summary."""

    def run(name: str, **extra: str) -> tuple[dict[str, Any], dict[str, Any]]:
        run_dir = Path(tempfile.mkdtemp(dir=tmp_path))
        env = environment(run_dir, **{**ON, **extra})
        done = python([str(HERE / "tuned_scenarios.py"), name], env)
        assert (done.returncode, done.stderr) == (0, "")
        (path,) = run_dir.glob("summary-*.json")
        summary = json.loads(path.read_text())
        assert summary["faults"] == []
        return json.loads(done.stdout), summary["loaders"][0]

    return run


def _unhindered(tuned: Tuned, name: str, own: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """A run that does not wait as written: one that is robbed of its core does, and is helped."""
    for _ in range(2):
        answer, row = tuned(name)
        waits = [one["wait"] for one in row["tuned"]["rates"] if one["workers"] == own]
        if waits and waits[0] <= LEAST_WAIT:
            return answer, row
    pytest.skip("the machine was so busy that every run waited")


@pytest.mark.parametrize("name", ["waits_at_home", "waits_with_one"])
def test_one_that_waits_gets_the_workers_it_needs(tuned: Tuned, name: str) -> None:
    """80 ms of waiting for a step of 20: four workers or a few more, whatever it began with."""
    answer, row = tuned(name)
    assert answer["in_order"]
    assert answer["most"] >= 3
    assert 1 < len(row["tuned"]["rates"]) <= 9


def test_short_epochs_are_measured_whole(tuned: Tuned) -> None:
    """Epochs of a second, each with workers of its own: more than the author's count is tried."""
    answer, row = tuned("short_epochs")
    assert answer["in_order"]
    assert len(row["tuned"]["rates"]) > 1


def test_one_that_does_not_wait_is_left_alone(tuned: Tuned) -> None:
    """No worker is ever started, and one count was measured."""
    answer, row = _unhindered(tuned, "does_not_wait", own=0)
    assert answer == {"in_order": True, "most": 0}
    assert (row["method"], [one["workers"] for one in row["tuned"]["rates"]]) == ("own", [0])


def test_fewer_work_where_the_same_rate_comes_from_fewer(tuned: Tuned) -> None:
    """Eight that work a quarter of one worker's time: a few stay, and the rate with them."""
    answer, row = _unhindered(tuned, "has_too_many", own=8)
    assert answer["in_order"]
    assert row["tuned"]["workers"] <= 4


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("stream", "iterable dataset"),
        ("draws_with_a_seed", "pinned seeds (DLQUEUE_SEEDED=allow lifts this)"),
    ],
)
def test_what_is_left_alone_is_left_alone(tuned: Tuned, name: str, why: str) -> None:
    """The probe's refusals hold for the tuner: nothing starts, and the summary says why."""
    answer, row = tuned(name)
    assert answer == {"in_order": True, "most": 0}
    assert row["left_alone"] == why


def test_the_file_decides_while_it_is_there(tuned: Tuned) -> None:
    """Two, as it says, and the tuner measures nothing."""
    answer, row = tuned("ruled_by_a_file")
    assert (answer["in_order"], row["gate"]) == (True, 2)
    assert row["tuned"]["rates"] == []


def test_the_users_word_wins(tuned: Tuned) -> None:
    """DLQUEUE_AUTOTUNE=0: as written."""
    answer, row = tuned("short_epochs", DLQUEUE_AUTOTUNE="0")
    assert (answer["most"], row["method"], row["tuned"]) == (0, "own", None)


def test_every_sample_once_whatever_is_asked(
    tmp_path: Path, environment: Environment, python: Python
) -> None:
    """A hundred random askings: more and fewer within the pass, home and out again."""
    env = environment(tmp_path / "run", **ON, DLQUEUE_SEEDED="allow", SAME_EXAMPLES="1")
    done = python(["-m", "tests.probe.asking_property"], env)
    assert (done.returncode, done.stdout) == (0, "held\n"), done.stderr
