"""INSTALL.md as data: what each step says to do and to undo."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from slurm_ext.cli.common.parsers import module_of, parser_of

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


def understood(words: Sequence[str]) -> bool:
    """Whether the command takes the words after `dlqueue`."""
    try:
        parser_of(words[0], module_of(words[0])).parse_args(words[1:])
    except SystemExit as end:
        return end.code == 0  # --help
    return True
