"""A whole file or none: written beside its place, made durable, then put in it."""

import os
from pathlib import Path

from slurm_ext.core.errors import InputError
from slurm_ext.core.files import replace_file

MODE = 0o640  # other users' job names are private


def put_file(path: Path, text: str, mode: int = MODE) -> None:
    """Write `path`; where that fails, what stood there still does. Raises InputError.

    A device or a pipe is written to, never replaced: root's `--output /dev/null` left a plain file.
    """
    if not path.name:
        raise InputError(str(path), "is a folder: name a file in it")
    data = text.encode("utf-8", "backslashreplace")
    try:
        if path.exists() and not path.is_file():
            path.write_bytes(data)
        else:
            replace_file(path, data, mode=mode)
    except OSError as error:
        left = "; what was there before is untouched" if os.access(path, os.F_OK) else ""
        raise InputError(str(path), f"cannot be written: {error.strerror}{left}") from None
