r"""Reads values of slurm.conf, and puts marked lines into its text and takes them out again.

`without(added(...))` is the text of before, to the last byte.
Syntax: slurm.conf(5) (keys in any case, `#` to the line's end, `\` continues a line, `Include`).
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from slurm_ext.core.errors import InputError

_BEGIN, _END, _WAS = "# >>> dlqueue ", "# <<< dlqueue ", "#| "
_BARE = " (the line before had no end)"  # the text ended without a newline
_BLOCK = re.compile(
    rf"{_BEGIN}(\w+)[^\n]*?({re.escape(_BARE)})?\n(.*?)(?:{_END}\1\n|\Z)", re.DOTALL
)
_COMMENT = re.compile(r"(?<!\\)#.*")


@dataclass(frozen=True, slots=True)
class ConfValue:
    """One `key = value` of a text, with the index of its line."""

    line: int
    value: str
    start: int  # of the value in its line
    continued: bool


def conf_values(text: str, key: str) -> list[ConfValue]:
    """Return all values of `key`, in order; Slurm 22.05 takes the last."""
    wanted = re.compile(rf'(?<!\S){key}[ \t]*=[ \t]*("[^"\n]*"|[^\s"]\S*)', re.IGNORECASE)
    values, continues = [], False
    for number, line in enumerate(text.split("\n")):
        continued, continues = continues, line.rstrip("\r").endswith("\\")
        for match in wanted.finditer(_COMMENT.sub("", line)):
            value = match[1].strip('"')
            values.append(ConfValue(number, value, match.start(1), continued or continues))
    return values


def included(text: str) -> Iterator[str]:
    """Yield the paths of `Include` lines, as they are written."""
    for line in text.split("\n"):
        if match := re.match(r"\s*include\s+(\S+)", _COMMENT.sub("", line), re.IGNORECASE):
            yield match[1].strip('"')


def replaced(text: str, place: ConfValue, value: str, step: str, source: str) -> str:
    """Replace one value; the old line is kept as a comment. Raises InputError."""
    if place.continued:
        why = "is continued over several lines: write it on one line first"
        raise InputError(source, why, line=place.line + 1)
    lines = text.split("\n")
    line, last = lines[place.line], place.line == len(lines) - 1
    end = place.start + len(place.value) + 2 * (line[place.start] == '"')
    new = f"{line[: place.start]}{value}{line[end:]}"
    head = f"{_BEGIN}{step}{_BARE if last else ''}"
    lines[place.line] = f"{head}\n{_WAS}{line}\n{new}\n{_END}{step}" + "\n" * last
    return "\n".join(lines)


def added(text: str, lines: list[str], step: str) -> str:
    """Add marked lines at the end of the text, if there are any."""
    if not lines:
        return text
    bare = bool(text) and not text.endswith("\n")
    newline, block = "\n" * bare, "".join(f"{line}\n" for line in lines)
    return f"{text}{newline}{_BEGIN}{step}{_BARE * bare}\n{block}{_END}{step}\n"


def steps_in(text: str) -> set[str]:
    """Return the steps that have marked lines in the text."""
    return {block[1] for block in _BLOCK.finditer(text)}


def without(text: str, source: str) -> str:
    """Remove all marked lines. Raises InputError if a mark is damaged."""
    parts: list[str] = []
    at = 0
    for block in _BLOCK.finditer(text):
        if not block[0].endswith(f"{_END}{block[1]}\n"):
            line = text.count("\n", 0, block.start()) + 1
            raise InputError(source, f"no line {_END + block[1]!r} ends this block", line=line)
        before = "".join([*parts, text[at : block.start()]])
        was = "".join(f"{line[3:]}\n" for line in block[3].split("\n") if line.startswith(_WAS))
        restored = before + was
        parts = [restored.removesuffix("\n") if block[2] else restored]
        at = block.end()
    return "".join([*parts, text[at:]])
