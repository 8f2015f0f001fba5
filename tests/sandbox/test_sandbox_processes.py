"""Knowing processes by more than a number."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from slurm_ext.sandbox.processes import bearing, descendants, is_same, send, start_time

SLEEP = [sys.executable, "-S", "-c", "import time; time.sleep(60)"]


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """A process with a child of its own and a mark in its environment."""
    nested = f"import subprocess; subprocess.run({SLEEP!r})"
    process = subprocess.Popen([sys.executable, "-S", "-c", nested], env={"MARK": "yes"})
    deadline = time.monotonic() + 60
    while not descendants(process.pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    yield process
    for pid in descendants(process.pid):
        send(pid, signal.SIGKILL)
    process.kill()
    process.wait()


def test_children_and_theirs_are_found(sleeper: subprocess.Popen[bytes]) -> None:
    """The whole tree below a process is seen."""
    found = descendants(os.getpid())
    assert sleeper.pid in found
    assert set(descendants(sleeper.pid)) < set(found)


def test_a_process_is_itself_only_with_start_time_and_command(
    sleeper: subprocess.Popen[bytes],
) -> None:
    """A pid that was given to another process is not taken for the old one."""
    started = start_time(sleeper.pid)
    assert started is not None
    assert is_same(sleeper.pid, started, "time.sleep")
    assert not is_same(sleeper.pid, started + 1, "time.sleep")
    assert not is_same(sleeper.pid, started, "slurmctld")


def test_the_dead_are_nobody(sleeper: subprocess.Popen[bytes]) -> None:
    """A zombie, and after it the free pid, have no start time."""
    sleeper.kill()
    os.waitid(os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)
    assert start_time(sleeper.pid) is None
    assert not is_same(sleeper.pid, 1, "time.sleep")


def test_marked_processes_and_their_heirs_are_found(sleeper: subprocess.Popen[bytes]) -> None:
    """A mark in the environment finds a process, and never the one that asks."""
    found = bearing("MARK=yes")
    assert {sleeper.pid, *descendants(sleeper.pid)} <= set(found)
    assert os.getpid() not in found
    assert not bearing("MARK=y")


def test_signals_to_the_dead_are_no_error(sleeper: subprocess.Popen[bytes]) -> None:
    """The first signal ends the process; a second one finds nobody and raises nothing."""
    send(sleeper.pid, signal.SIGTERM)
    assert sleeper.wait() == -signal.SIGTERM
    send(sleeper.pid, signal.SIGKILL)
    assert sleeper.returncode == -signal.SIGTERM
