"""A whole file or none: written beside its place, made durable, then put in it."""

import os
from contextlib import suppress
from pathlib import Path

from slurm_ext.core.errors import InputError

MODE = 0o640  # other users' job names are private


def put_file(path: Path, text: str, mode: int = MODE) -> None:
    """Write `path`; where that fails, what stood there still does. Raises InputError.

    A device or a pipe is written to, never replaced: root's `--output /dev/null` left a plain file.
    """
    if not path.name:
        raise InputError(str(path), "is a folder: name a file in it")
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        if path.exists() and not path.is_file():
            path.write_text(text, encoding="utf-8", errors="backslashreplace")
            return
        _write(beside, text, mode)
        beside.replace(path)
        _sync(path.parent)
    except OSError as error:
        with suppress(OSError):
            beside.unlink(missing_ok=True)
        left = "; what was there before is untouched" if os.access(path, os.F_OK) else ""
        raise InputError(str(path), f"cannot be written: {error.strerror}{left}") from None


def _write(path: Path, text: str, mode: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, mode)
    with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
