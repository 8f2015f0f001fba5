"""Columns for a terminal in one pass: importing rich would take longer than asking for them."""

import os
import sys
from collections.abc import Collection, Iterator, Sequence
from shutil import get_terminal_size
from typing import NamedTuple

_COLOURS = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33"}
_CUT = "…"


class Cell(NamedTuple):
    """Printable text, and its colour; "": none."""

    text: str
    colour: str = ""


def lines(rows: Sequence[Sequence[Cell]], *, left: Collection[int], cut: int) -> Iterator[str]:
    """The rows, columns of `left` to the left; that of `cut` is cut to what the terminal has."""
    widths = [max(map(width, column)) for column in _texts(rows)]
    beyond = sum(widths) + len(widths) - 1 - get_terminal_size().columns
    widths[cut] = max(1, widths[cut] - max(0, beyond))
    coloured = _takes_colours()
    for row in rows:
        filled = (
            _filled(cell, room, coloured=coloured, to_left=place in left)
            for place, (cell, room) in enumerate(zip(row, widths, strict=True))
        )
        yield " ".join(filled).rstrip(" ")


def width(text: str) -> int:
    """Places that a text takes: two for a wide character, none for a mark on the one before."""
    return len(text) if text.isascii() else sum(map(_places, text))


def _places(char: str) -> int:
    from unicodedata import combining, east_asian_width

    return 0 if combining(char) else 2 if east_asian_width(char) in ("W", "F") else 1


def _texts(rows: Sequence[Sequence[Cell]]) -> Iterator[list[str]]:
    for column in zip(*rows, strict=True):
        yield [cell.text for cell in column]


def _filled(cell: Cell, room: int, *, coloured: bool, to_left: bool) -> str:
    text = _shortened(cell.text, room)
    spaces = " " * (room - width(text))
    if coloured and cell.colour:
        text = f"\x1b[{_COLOURS[cell.colour]}m{text}\x1b[0m"
    return text + spaces if to_left else spaces + text


def _shortened(text: str, room: int) -> str:
    if width(text) <= room:
        return text
    text = text[:room]
    while width(text) > room - 1:
        text = text[:-1]
    return text + _CUT


def _takes_colours() -> bool:
    """True for a terminal whose user wants them (https://no-color.org)."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return sys.stdout.isatty() and os.environ.get("TERM", "") not in ("dumb", "unknown")
