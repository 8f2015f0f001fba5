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
    if not _is_written(settings):
        import json

        _write_whole(settings, _SETTINGS.format(state=json.dumps(own)))
    return own


def _is_written(settings: str) -> bool:
    """False for no file, and for one of no bytes, such as a full disk may leave. Raises OSError."""
    try:
        return os.stat(settings).st_size > 0
    except FileNotFoundError:
        return False


def keep(own: str, document: dict[str, Any]) -> int | str:
    """Leave a run for the history; returns its number, or why the disk does not take it."""
    try:
        number_file = _locked(own)
        try:
            number = _next_number(own, number_file)
            _leave(own, number, document)
        finally:
            os.close(number_file)
    except OSError as error:
        return f"{error.filename or own}: {error.strerror}"
    return number


def _next_number(own: str, number_file: int) -> int:
    """A number above all that were given, noted before its use: a failure costs a number, no run.

    The note may be empty, after a failure of an earlier release.
    """
    text = os.read(number_file, 20).strip()
    last = int(text) if text.isdigit() else _last_entered(os.path.join(own, "history.db"))
    waiting = [name.partition(".")[0] for name in os.listdir(os.path.join(own, ARRIVED))]
    number = max([last, *(int(name) for name in waiting if name.isdecimal())]) + 1
    noted = b"%d\n" % number
    os.pwrite(number_file, noted, 0)
    os.ftruncate(number_file, len(noted))
    return number


def _last_entered(history: str) -> int:
    if not os.path.exists(history):
        return 0
    from slurm_ext.advisor.own_runs.entering import last_entered

    return last_entered(history)


def _leave(own: str, number: int, document: dict[str, Any]) -> None:
    """Leave the run's file, with the number in it."""
    import json

    identity = document["record"]["identity"]
    identity["job_id"] = number
    document["record"]["record_id"] = f"own-{number}-0-{identity['node']}"
    _write_whole(os.path.join(own, ARRIVED, f"{number}.json"), json.dumps(document))


def _write_whole(path: str, text: str) -> None:
    """Put a file there, or leave nothing behind. Raises OSError, which names it."""
    above, name = os.path.split(path)
    hidden = os.path.join(above, f".{name}.{os.getpid()}")
    try:
        with open(hidden, "w", encoding="utf-8") as file:
            file.write(text)
        os.rename(hidden, path)
    except OSError as error:
        error.filename = path  # a full disk's error names none
        try:
            os.unlink(hidden)
        except OSError:
            pass
        raise


def _locked(own: str) -> int:
    """The open file of the last run's number: one process has it until it is closed. OSError."""
    import fcntl

    file = os.open(os.path.join(own, "last_run"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(file, fcntl.LOCK_EX)
    return file


def take_in(own: Path) -> None:
    """Enter the runs that wait into the history. Raises HistoryError, OSError.

    One that cannot be read now waits on.
    """
    waiting = sorted((own / ARRIVED).glob("[!.]*.json"))
    if not waiting:
        return
    lock = _locked(str(own))
    try:
        from contextlib import suppress

        from slurm_ext.advisor.own_runs.entering import enter

        documents: dict[Path, dict[str, Any] | None] = {}
        for path in waiting:
            with suppress(OSError):
                documents[path] = _document(path)
        enter(own, [document for document in documents.values() if document])
        for path in documents:
            path.unlink(missing_ok=True)
    finally:
        os.close(lock)


def _document(path: Path) -> dict[str, Any] | None:
    """The run that `keep` wrote; None for anything else, which is dropped. Raises OSError."""
    import json

    try:
        if path.stat().st_size <= _MOST_BYTES:
            document = json.loads(path.read_bytes())
            if isinstance(document, dict) and isinstance(document.get("command"), str):
                return document
    except ValueError:
        pass
    return None
