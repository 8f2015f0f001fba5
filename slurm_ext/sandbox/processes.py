"""Processes by /proc: their descendants, their identity, their environment."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path


def start_time(pid: int) -> int | None:
    """Start of `pid` in clock ticks since boot; None if it is gone or a zombie."""
    fields = _stat(pid)
    return None if fields is None or fields[0] == "Z" else int(fields[19])


def is_same(pid: int, started: int, word: str) -> bool:
    """True if `pid` is the process that started at `started`, with `word` in its command line."""
    with suppress(OSError):
        command = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
        return start_time(pid) == started and word in command
    return False


def descendants(pid: int) -> list[int]:
    """Return every process below `pid`, zombies included."""
    children: dict[int, list[int]] = {}
    for child in _pids():
        fields = _stat(child)
        if fields is not None:
            children.setdefault(int(fields[1]), []).append(child)
    below = list(children.get(pid, ()))
    for parent in below:  # the list grows while it is walked
        below += children.get(parent, ())
    return below


def bearing(variable: str) -> list[int]:
    """Processes started with `variable` (NAME=value) in their environment, and their descendants.

    This process and its ancestors are left out: a shell inside a sandbox may take it down.
    """
    marked = [pid for pid in _pids() if _carries(pid, variable.encode())]
    family = {member for pid in marked for member in [pid, *descendants(pid)]}
    return sorted(family - set(_lineage(os.getpid())))


def send(pid: int, number: signal.Signals) -> None:
    """Send a signal to a process that may be gone."""
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def _pids() -> Iterator[int]:
    return (int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal())


def _lineage(pid: int) -> Iterator[int]:
    while pid and (fields := _stat(pid)) is not None:
        yield pid
        pid = int(fields[1])


def _carries(pid: int, variable: bytes) -> bool:
    with suppress(OSError):
        return variable in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return False


def _stat(pid: int) -> list[str] | None:
    """Fields of /proc/PID/stat from the state on (the name before it may be any text)."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(") ")[2].split()
    return None


def kill_descendants() -> None:
    """Kill and collect all descendants of this process, those that appear meanwhile too."""
    while living := descendants(os.getpid()):
        for pid in living:
            send(pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(0.005)
