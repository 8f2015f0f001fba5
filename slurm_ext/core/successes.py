"""Times of the last successes of tasks that go on unseen: an empty file for each, by its time."""

import os
import time
from contextlib import nullcontext, suppress
from pathlib import Path

from slurm_ext.core.files import replace_file

REFRESH, TRAINING = "refresh", "training"
TASKS = (REFRESH, TRAINING)


def mark_success(state: Path, task: str) -> None:
    """Note that the task succeeded just now; where that cannot be written, it is left."""
    with suppress(OSError):
        replace_file(state / f".{task}-succeeded", b"", durable=False)


def last_success_s(state: Path, task: str) -> float | None:
    """Time of the last success, seconds since the epoch; None: there was none."""
    try:
        return (state / f".{task}-succeeded").stat().st_mtime
    except OSError:
        return None


def oldest_waiting(folder: Path, most: int) -> tuple[int, float]:
    """Records that wait in a spool folder, at most `most`, and the oldest one's age in seconds.

    Raises OSError.
    """
    born = []
    with os.scandir(folder) if folder.is_dir() else nullcontext(()) as entries:
        for entry, _ in zip(entries, range(most), strict=False):
            if entry.name.endswith(".json") and not entry.name.startswith("."):
                with suppress(FileNotFoundError):  # taken in meanwhile
                    born.append(entry.stat().st_mtime)
    return len(born), max(0.0, time.time() - min(born)) if born else 0.0
