"""Turns of tests: one that measures a whole node runs alone, all others of this run wait."""

import fcntl
import os
import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

_RUN = os.environ.get("PYTEST_XDIST_TESTRUNUID", str(os.getpid()))
_ours: list[bool] = []  # turns that this process has: a test that runs again is in one already
_runs: set[str] = set()  # whose files this process removes: its own run's, or its workers'


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Let what measures a whole node run alone: a job that waits for others is judged otherwise."""
    with turn(alone=item.get_closest_marker("alone") is not None):
        return (yield)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """A worker starts: its run is ours."""
    _runs.add(node.workerinput["testrunuid"])


def pytest_unconfigure() -> None:
    """After the last test, nobody takes turns: the files go."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        for path in (path for run in (*_runs, _RUN) for path in _files(run)):
            path.unlink(missing_ok=True)


@contextmanager
def turn(*, alone: bool) -> Iterator[None]:
    """Wait for a turn beside others, or for one without them.

    Who waits for the latter holds the gate, so that nobody begins before it. A turn within a turn
    is the same one: locks of two open files would wait for each other.
    """
    if _ours:
        yield
        return
    _ours.append(alone)
    try:
        with _locked(alone=alone):
            yield
    finally:
        _ours.clear()


@contextmanager
def _locked(*, alone: bool) -> Iterator[None]:
    gate_path, turn_path = _files(_RUN)
    with gate_path.open("a") as gate, turn_path.open("a") as running:
        fcntl.flock(gate, fcntl.LOCK_EX)
        fcntl.flock(running, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        if not alone:
            fcntl.flock(gate, fcntl.LOCK_UN)
        yield


def _files(run: str) -> list[Path]:
    folder = Path(tempfile.gettempdir())
    return [folder / f"dlqueue-{run}-{name}" for name in ("gate", "turn")]
