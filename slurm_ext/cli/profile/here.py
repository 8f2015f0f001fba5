"""A profile run on this machine: the program as a child, ended when its time is over."""

import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from slurm_ext.cli.common.not_started import why_not_started
from slurm_ext.cli.profile.run_folder import (
    ProfileLimits,
    ProfileRun,
    environment,
    left,
    run_folder,
)
from slurm_ext.core.errors import InputError

_GRACE_S = 10.0


def run(argv: list[str], limits: ProfileLimits) -> ProfileRun:
    """Run it to its end or its limit. Raises InputError where it cannot be started."""
    from slurm_ext.cli.run.child import Child

    with run_folder(Path(tempfile.gettempdir())) as folder:
        env = {**environment(folder, limits, os.environ), "TMPDIR": str(folder / "tmp")}
        late = threading.Event()
        with _output_aside():
            try:
                child = Child(argv, env)
            except OSError as error:
                why = why_not_started("profile --", argv[0], error)
                raise InputError(argv[0], f"cannot be started: {why}") from None
            with _limited(limits.whole_s, folder, late):
                status = child.wait()
        _end_all(folder, 0.0)
        return left(folder, _how(status, late.is_set(), limits))


def _how(status: int, late: bool, limits: ProfileLimits) -> str:
    if late:
        return f"was ended after {limits.whole_s:g} s (--startup, --seconds)"
    if os.WIFSIGNALED(status):
        return f"was ended by signal {os.WTERMSIG(status)}"
    code = os.WEXITSTATUS(status)
    return f"failed with exit status {code}" if code else "ended"


@contextmanager
def _output_aside() -> Iterator[None]:
    """Meanwhile standard output is standard error: ours stays clean for the answer."""
    sys.stdout.flush()
    kept = os.dup(1)
    try:
        os.dup2(2, 1)
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


@contextmanager
def _limited(seconds: float, folder: Path, late: threading.Event) -> Iterator[None]:
    def end() -> None:
        late.set()
        _end_all(folder, _GRACE_S)

    timer = threading.Timer(seconds, end)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _end_all(folder: Path, grace_s: float) -> None:
    """End the run's processes, whose environment names its folder: by a wish, then by force."""
    deadline = time.monotonic() + grace_s
    _send(folder, signal.SIGTERM)
    while time.monotonic() < deadline and any(_processes(folder)):
        time.sleep(0.1)
    _send(folder, signal.SIGKILL)


def _send(folder: Path, number: int) -> None:
    for pid in _processes(folder):
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def _processes(folder: Path) -> Iterator[int]:
    mark = f"DLQUEUE_RUN_DIR={folder}".encode()
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if mark in path.read_bytes().split(b"\0"):
                yield int(path.parent.name)
