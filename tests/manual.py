"""INSTALL.md as data: what each step says to do and to undo."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SECTION = re.compile(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block; `language` says which file or shell it is for."""

    language: str
    text: str


@dataclass(frozen=True, slots=True)
class Step:
    """One section of the page: what to do, and how to undo it."""

    title: str
    do: tuple[Block, ...]
    undo: tuple[Block, ...]


def steps() -> Iterator[Step]:
    """Every section of INSTALL.md in order, numbered or not."""
    page = (ROOT / "INSTALL.md").read_text(encoding="utf-8")
    for title, body in _SECTION.findall(page):
        do, _, undo = body.partition("*Undo:*")
        yield Step(title, _blocks(do), _blocks(undo))


def _blocks(text: str) -> tuple[Block, ...]:
    return tuple(Block(language, body) for language, body in _BLOCK.findall(text))
