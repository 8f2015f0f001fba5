"""A document to standard output: as JSON, or in lines for people."""

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from slurm_ext.core.errors import InputError

Document = Mapping[str, Any]


def tell(document: Document, lines: Callable[[Document], Iterable[str]], *, as_json: bool) -> None:
    """`lines` makes what people read of it; what would drive a terminal is shown, not obeyed."""
    if as_json:
        import json

        print(json.dumps(document))
        return
    for line in lines(document):
        print(plain(line))


def plain(line: str) -> str:
    """A line with nothing in it that drives a terminal or turns writing round."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in line)


MODE = 0o640  # other users' job names are private


def put_file(path: Path, text: str, mode: int = MODE) -> None:
    """Write `path`; where that fails, what stood there still does. Raises InputError.

    A device or a pipe is written to, never replaced: root's `--output /dev/null` left a plain file.
    """
    from slurm_ext.core.files import replace_file

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
