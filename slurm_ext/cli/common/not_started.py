"""Messages for a program that could not be started: why, and what to type instead."""

from __future__ import annotations

import os


def why_not_started(command: str, name: str, error: OSError) -> str:
    """The system's reason; behind it what to type after `dlqueue COMMAND`, where that is plain."""
    if os.path.isdir(name):  # noqa: PTH112 (pathlib is not needed for anything else)
        return f"is a folder: name a program, as in `dlqueue {command} python train.py`"
    how = _start_of(name)
    why = "not on PATH" if _is_sought(name, error) else error.strerror
    if how is None:
        return f"{why}; name a program, as in `dlqueue {command} python train.py`"
    return f"{why}; the file here is started by `dlqueue {command} {how}`"


def _is_sought(name: str, error: OSError) -> bool:
    return isinstance(error, FileNotFoundError) and "/" not in name


def _start_of(name: str) -> str | None:
    """Words that start this file; None where there is none, or it can be started as named."""
    if not os.path.isfile(name):  # noqa: PTH113 (as above)
        return None
    import shlex

    path = name if "/" in name else f"./{name}"
    if os.access(path, os.X_OK):
        return shlex.quote(path) if path != name else None
    program = "python" if name.endswith(".py") else "bash"
    return f"{program} {shlex.quote(name)}"
