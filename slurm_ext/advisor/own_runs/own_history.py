"""The history of a user who has no site: runs of `dlqueue run`, in $XDG_STATE_HOME/dlqueue.

A run leaves a file there and no more, because the user waits for the prompt. The next command that
reads the history enters it (take_in).
"""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from slurm_ext.core.settings.own import own_settings_path

ARRIVED = "runs"
_MOST_BYTES = 4 << 20
_SETTINGS = """# History of `dlqueue run`: this user's own.
[site]
mode = "advise"
cluster = "own"

[paths]
state_dir = {state}
"""


def folder() -> Path:
    """The user's state folder, made on first use, with its settings. Raises OSError."""
    path = own_settings_path()
    (path.parent / ARRIVED).mkdir(mode=0o700, parents=True, exist_ok=True)
    if not path.exists():
        path.write_text(_SETTINGS.format(state=json.dumps(str(path.parent))))
    return path.parent


def keep(own: Path, document: dict[str, Any]) -> int | None:
    """Leave a run for the history; returns its number. None: the disk does not take it."""
    try:
        with _locked(own) as number_file:
            text = number_file.read(20).strip()
            number = int(text) + 1 if text.isdigit() else 1
            record = document["record"]
            record["identity"]["job_id"] = number
            node = record["identity"]["node"]
            record["record_id"] = f"own-{number}-0-{node}"
            hidden = own / ARRIVED / f".{number}.json"
            hidden.write_text(json.dumps(document))
            hidden.rename(own / ARRIVED / f"{number}.json")
            os.ftruncate(number_file.fileno(), 0)
            os.pwrite(number_file.fileno(), b"%d\n" % number, 0)
    except OSError:
        return None
    return number


@contextmanager
def _locked(own: Path) -> Iterator[Any]:
    """The file of the last run's number; one process has it at a time."""
    path = own / "last_run"
    with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), "r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield file


def take_in(own: Path) -> None:
    """Enter the runs that wait into the history. Raises HistoryError."""
    waiting = sorted((own / ARRIVED).glob("[!.]*.json"))
    if not waiting:
        return
    with _locked(own):
        from slurm_ext.advisor.own_runs.entering import enter

        documents = {path: _document(path) for path in waiting}
        enter(own, [document for document in documents.values() if document])
        for path in waiting:
            with suppress(FileNotFoundError):
                path.unlink()


def _document(path: Path) -> dict[str, Any] | None:
    """The run that `keep` wrote; None for anything else, which is dropped."""
    with suppress(OSError, ValueError):
        if path.stat().st_size <= _MOST_BYTES:
            document = json.loads(path.read_bytes())
            if isinstance(document, dict) and isinstance(document.get("command"), str):
                return document
    return None
