"""Standard input, output and error as commands find them: closed, full, of another encoding."""

from __future__ import annotations

import os
import sys
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TextIO


def prepare() -> None:
    """Closed ones lead nowhere, so that no file opened later takes their number.

    What their encoding lacks becomes a question mark: a frame around a table, a name from a file.
    """
    for number in (0, 1, 2):
        with suppress(OSError):
            _fill(number)
    if sys.stdin is None:
        sys.stdin = open(os.devnull)  # noqa: SIM115, PTH123 (open until the process ends)
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115, PTH123 (open until the process ends)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115, PTH123 (open until the process ends)
    _forgiving(sys.stdout)


def _fill(number: int) -> None:
    try:
        os.fstat(number)
    except OSError:
        opened = os.open(os.devnull, os.O_RDWR)  # the lowest free number: this one, as a rule
        if opened != number:
            os.dup2(opened, number)
            os.close(opened)


def _forgiving(stream: TextIO) -> None:
    change = getattr(stream, "reconfigure", None)  # absent where a test took the stream's place
    if change is not None:
        change(errors="replace")


def abandon() -> None:
    """Nobody can take the rest of the output: Python's own flush at the end must not complain."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def plain(text: str) -> str:
    """The text of an error without what drives a terminal; line ends stay."""
    return "".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in text)
