"""Starts one row's process, and ends it when its time is over."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from contrib.bench.gpu.here import ROOT, Here
from contrib.bench.gpu.mps_jobs import end_left
from contrib.bench.gpu.table import RowKind

CLEAN_S = 12.0  # that a row has to end its programs and daemons
LEAST_S = 16.0  # with less, a row is not begun
PLANNED = 0.75  # of a row's time that its repeats may fill; the rest is for its starts and ends


def row_of(kind: RowKind, here: Here, limit_s: float) -> dict[str, Any]:
    """One row's outcome, within so many seconds, with the seconds that it took."""
    began = time.monotonic()
    if limit_s < LEAST_S:
        return _none("absent", f"{limit_s:.0f} s are left of --seconds") | {"seconds": 0.0}
    with tempfile.TemporaryDirectory(prefix="dlqgpu-", ignore_cleanup_errors=True) as folder:
        seconds = PLANNED * max(0.0, limit_s - CLEAN_S)
        told = replace(here, folder=folder, seconds=seconds)
        try:
            found = _measured(kind, told, limit_s - CLEAN_S)
        finally:
            end_left(folder)
    return found | {"seconds": round(time.monotonic() - began, 1)}


def _measured(kind: RowKind, here: Here, limit_s: float) -> dict[str, Any]:
    path = Path(here.folder, "outcome.json")
    argv = [sys.executable, "-W", "ignore", "-m", "contrib.bench.gpu.one", kind.name]
    with open(f"{here.folder}/said", "w+", encoding="utf-8") as said:  # noqa: PTH123 - a handle
        process = subprocess.Popen(
            [*argv, json.dumps(here.json()), str(path)],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        with _ended(process):
            over = not _waited(process, limit_s)
            if over:
                process.send_signal(signal.SIGTERM)
                _waited(process, CLEAN_S)
        with contextlib.suppress(OSError, ValueError):
            found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            return found
        said.seek(0)
        return _none("failed", _why(process, over, said.read()))


def _waited(process: "subprocess.Popen[bytes]", seconds: float) -> bool:
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


@contextlib.contextmanager
def _ended(process: "subprocess.Popen[bytes]") -> Iterator[None]:
    """Nothing of the row's programs stays, whatever happens."""
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _why(process: "subprocess.Popen[bytes]", over: bool, said: str) -> str:
    if over:
        return "it did not end when its time was over"
    last = said.strip().splitlines()[-1:] or ["it said nothing"]
    return f"its process ended with status {process.returncode}: {last[0][:200]}"


def _none(status: str, why: str) -> dict[str, Any]:
    return {"status": status, "why": why, "figures": {}, "absent": {}, "facts": {}}
