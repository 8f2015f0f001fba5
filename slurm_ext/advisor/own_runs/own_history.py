"""The history of a user who has no site: runs of `dlqueue run`, in $XDG_STATE_HOME/dlqueue.

A run leaves a file there and no more, because the user waits for the prompt. The next command that
reads the history enters it (take_in). What runs before the user's program imports next to nothing.
"""

from __future__ import annotations

import os

from slurm_ext.core.settings.own import NAME, own_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

ARRIVED = "runs"
_MOST_BYTES = 4 << 20
_SETTINGS = """# History of `dlqueue run`: this user's own.
[site]
mode = "advise"
cluster = "own"

[paths]
state_dir = {state}
"""


def folder() -> str:
    """The user's state folder, made on first use, with its settings. Raises OSError."""
    own = own_folder()
    settings = os.path.join(own, NAME)
    os.makedirs(os.path.join(own, ARRIVED), 0o700, exist_ok=True)
    if not os.path.exists(settings):
        import json

        with open(settings, "w", encoding="utf-8") as file:
            file.write(_SETTINGS.format(state=json.dumps(own)))
    return own


def keep(own: str, document: dict[str, Any]) -> int | None:
    """Leave a run for the history; returns its number. None: the disk does not take it."""
    try:
        number_file = _locked(own)
    except OSError:
        return None
    try:
        text = os.read(number_file, 20).strip()
        number = int(text) + 1 if text.isdigit() else 1
        _leave(own, number, document)
        os.ftruncate(number_file, 0)
        os.pwrite(number_file, b"%d\n" % number, 0)
    except OSError:
        return None
    finally:
        os.close(number_file)
    return number


def _leave(own: str, number: int, document: dict[str, Any]) -> None:
    """The run as a file, whole or not at all."""
    import json

    identity = document["record"]["identity"]
    identity["job_id"] = number
    document["record"]["record_id"] = f"own-{number}-0-{identity['node']}"
    hidden = os.path.join(own, ARRIVED, f".{number}.json")
    with open(hidden, "w", encoding="utf-8") as file:
        file.write(json.dumps(document))
    os.rename(hidden, os.path.join(own, ARRIVED, f"{number}.json"))


def _locked(own: str) -> int:
    """The open file of the last run's number: one process has it until it is closed. OSError."""
    import fcntl

    file = os.open(os.path.join(own, "last_run"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(file, fcntl.LOCK_EX)
    return file


def take_in(own: Path) -> None:
    """Enter the runs that wait into the history. Raises HistoryError, OSError."""
    waiting = sorted((own / ARRIVED).glob("[!.]*.json"))
    if not waiting:
        return
    lock = _locked(str(own))
    try:
        from slurm_ext.advisor.own_runs.entering import enter

        documents = {path: _document(path) for path in waiting}
        enter(own, [document for document in documents.values() if document])
        for path in waiting:
            path.unlink(missing_ok=True)
    finally:
        os.close(lock)


def _document(path: Path) -> dict[str, Any] | None:
    """The run that `keep` wrote; None for anything else, which is dropped."""
    import json

    try:
        if path.stat().st_size <= _MOST_BYTES:
            document = json.loads(path.read_bytes())
            if isinstance(document, dict) and isinstance(document.get("command"), str):
                return document
    except (OSError, ValueError):
        pass
    return None
