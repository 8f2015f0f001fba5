"""Workers that dlqueue starts keep freed memory for the next fetch."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.probe.conftest import Environment, Python
from tests.probe.programs_freeing import BLOCK

PAGES = 3 * BLOCK // 4096


@pytest.fixture
def seen(python: Python, environment: Environment, tmp_path: Path) -> Any:
    """What the program saw that was written with so many workers, moved to three or not."""

    def run(written: int, moved: bool, **extra: str) -> dict[str, Any]:
        named = {"DLQUEUE_NUM_WORKERS": "3"} if moved else {}
        env = environment((tmp_path / "run") if moved else None, **named, **extra)
        done = python(["-m", "tests.probe.programs_freeing", str(written)], env)
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    return run


@pytest.mark.parametrize("written", [0, 1])
def test_moved_workers_do_not_fault_the_same_pages_in_for_each_fetch(
    seen: Any, written: int
) -> None:
    """They would without: each fetch gives its blocks back. The user's own init is called."""
    found = seen(written, True)
    assert found["faults"] < PAGES / 20
    assert found["begun"] == (3 if written else 0)


def test_a_loader_as_written_is_glibcs_own(seen: Any) -> None:
    """So that the promise above is one: unmoved workers fault every page."""
    assert seen(2, False)["faults"] > PAGES / 2


@pytest.mark.parametrize(
    "word",
    [
        {"MALLOC_TRIM_THRESHOLD_": "1048576"},
        {"GLIBC_TUNABLES": "glibc.malloc.trim_threshold=1048576"},
    ],
)
def test_a_users_word_on_malloc_wins(seen: Any, word: dict[str, str]) -> None:
    """Whoever bounds a worker's heap has a reason."""
    assert seen(0, True, **word)["faults"] > PAGES / 2
