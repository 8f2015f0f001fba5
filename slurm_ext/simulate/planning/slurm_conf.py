r"""Reads a slurm.conf: keys in any case, `#`, `\` at a line's end, Include; see slurm.conf(5)."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from slurm_ext.core.errors import InputError, unreadable
from slurm_ext.core.units import parse_minutes

MOST_INCLUDED = 4  # files in one another
LINES = ("partitionname", "nodename")  # keys that begin a line of their own, told many times
Pairs = Mapping[str, str]  # keys in lower case
_PAIR = re.compile(r'(?<!\S)(\w+)[ \t]*=[ \t]*("[^"]*"|\S+)')
_COMMENT = re.compile(r"(?<!\\)#.*")


def read_lines(path: Path, depth: int = 0) -> Iterator[tuple[Path, dict[str, str]]]:
    """Keys and values of each line, those of included files in their place. Raises InputError."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace").replace("\\\n", "")
    except OSError as error:
        raise unreadable(str(path), error) from None
    for line in text.splitlines():
        bare = _COMMENT.sub("", line)
        if match := re.match(r"\s*include\s+(\S+)", bare, re.IGNORECASE):
            if depth > MOST_INCLUDED:
                raise InputError(str(path), f"{match[1]}: files include one another too deeply")
            yield from read_lines(path.parent / match[1].strip('"'), depth + 1)
        else:
            yield path, {key.lower(): value.strip('"') for key, value in _PAIR.findall(bare)}


def global_values(path: Path) -> dict[str, str]:
    """Values of the lines that are of no partition and no node; the last one counts."""
    values: dict[str, str] = {}
    for _, pairs in read_lines(path):
        if not any(key in pairs for key in LINES):
            values |= pairs
    return values


def number(values: Pairs, key: str, usual: float, path: Path) -> float:
    """The number of a key; `usual` where it is not there. Raises InputError."""
    text = values.get(key, "")
    if text and not re.fullmatch(r"[0-9]{1,10}(\.[0-9]{1,9})?", text):
        raise InputError(str(path), f"{key} is {text[:40]!r}: expected a number from 0 on")
    return float(text) if text else usual


def seconds(values: Pairs, key: str, usual: float, path: Path) -> float:
    """The seconds of a key's minutes, such as 7-0. Raises InputError."""
    if key not in values:
        return usual
    try:
        minutes = parse_minutes(values[key])
    except ValueError:
        minutes = None
    if minutes is None:
        raise InputError(str(path), f"{key} is {values[key][:40]!r}: expected a time such as 7-0")
    return minutes * 60
