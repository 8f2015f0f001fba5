"""Processes as /proc shows them: who descends from whom, and who is still the same process."""

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path


def start_time(pid: int) -> int | None:
    """Clock ticks since boot at which `pid` started; None where it is gone or a zombie."""
    fields = _stat(pid)
    return None if fields is None or fields[0] == "Z" else int(fields[19])


def is_same(pid: int, started: int, word: str) -> bool:
    """Whether `pid` is still the process that started then and has `word` in its command line."""
    with suppress(OSError):
        command = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
        return start_time(pid) == started and word in command
    return False


def descendants(pid: int) -> list[int]:
    """Every process below `pid`, those that nobody has waited for yet included."""
    children: dict[int, list[int]] = {}
    for child in _pids():
        fields = _stat(child)
        if fields is not None:
            children.setdefault(int(fields[1]), []).append(child)
    found = list(children.get(pid, ()))
    for parent in found:  # grows while it is walked: that is the walk
        found += children.get(parent, ())
    return found


def bearing(variable: str) -> list[int]:
    """Processes started with `variable` (NAME=value) in their environment, and their heirs.

    Who asks, and who it runs for, is left out: a shell inside a sandbox may take it down.
    """
    marked = [pid for pid in _pids() if _carries(pid, variable.encode())]
    heirs = {heir for pid in marked for heir in [pid, *descendants(pid)]}
    return sorted(heirs - set(_lineage(os.getpid())))


def send(pid: int, number: signal.Signals) -> None:
    """A signal to a process that may be gone already."""
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
    """Fields of /proc/PID/stat from the state on (the name before it may hold anything)."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(") ")[2].split()
    return None
