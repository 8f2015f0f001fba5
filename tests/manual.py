"""Pages as data: their blocks, the command lines that they show, and the steps of INSTALL.md."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from slurm_ext.cli.common.parsers import module_of, parser_of

ROOT = Path(__file__).parent.parent
GUIDES = ("README.md", *sorted(str(p.relative_to(ROOT)) for p in (ROOT / "docs").rglob("*.md")))
_BLOCK = re.compile(r'^```(\w*)(?: title="([^"]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)
_SECTION = re.compile(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block; `language` says which file or shell it is for, `title` names its file."""

    language: str
    text: str
    title: str = ""


@dataclass(frozen=True, slots=True)
class Step:
    """One section of the page: what to do, and how to undo it."""

    title: str
    do: tuple[Block, ...]
    undo: tuple[Block, ...]


def text_of(page: str) -> str:
    """A page as people read it."""
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(text: str) -> tuple[Block, ...]:
    """Every fenced block of a text, in order."""
    return tuple(Block(language, body, title) for language, title, body in _BLOCK.findall(text))


def lines_to_run(page: str) -> set[str]:
    """The words after `dlqueue` of the command lines in running text; not those after a `$`."""
    return {line for line in re.findall(r"`dlqueue ([^`]+)`", text_of(page)) if " " in line}


def steps() -> Iterator[Step]:
    """Every section of INSTALL.md in order, numbered or not."""
    for title, body in _SECTION.findall(text_of("INSTALL.md")):
        do, _, undo = body.partition("*Undo:*")
        yield Step(title, blocks(do), blocks(undo))


def understood(words: Sequence[str]) -> bool:
    """Whether the command takes the words after `dlqueue`; behind `predict sbatch` it takes any."""
    if words[0] == "predict" and "sbatch" in words:
        words = words[: words.index("sbatch") + 1]
    try:
        parser_of(words[0], module_of(words[0])).parse_args(words[1:])
    except SystemExit as end:
        return end.code == 0  # --help
    return True
