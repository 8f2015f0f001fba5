"""Files of sacctmgr: what `sacctmgr -P show` prints, and what `sacctmgr dump` writes."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from slurm_ext.core.errors import InputError, unreadable

MOST_BYTES = 1 << 26
PARENT = "Parent"
_LINE = re.compile(r"(\w+) - '([^']*)'((?::.*)?)")
_OPTION = re.compile(r":(\w+)=('[^']*'|\"[^\"]*\"|[^:]*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpedLine:
    """A QOS, Cluster, Account or User; `parent`: the account that those after it belong to."""

    line: int
    kind: str
    name: str
    parent: str
    values: Mapping[str, str]


def lines_of(path: Path) -> list[str]:
    """The lines of a file. Raises InputError."""
    try:
        if path.stat().st_size > MOST_BYTES:
            raise InputError(str(path), f"is larger than {MOST_BYTES >> 20} MiB")
        return path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise unreadable(str(path), error) from None


def header_of(lines: Sequence[str]) -> list[str]:
    """The columns of a listing; of a dump its first line."""
    return lines[0].split("|") if lines else []


def listed(lines: Sequence[str], path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """Rows of what `sacctmgr -P show` prints, with the numbers of their lines."""
    header = header_of(lines)
    for number, line in enumerate(lines[1:], start=2):
        cells = line.split("|")
        if line and len(cells) != len(header):
            why = f"{len(cells)} fields, expected {len(header)} as in line 1"
            raise InputError(str(path), why, line=number)
        if line:
            yield number, dict(zip(header, cells, strict=True))


def dumped(lines: Sequence[str], path: Path, how: str) -> Iterator[DumpedLine]:
    """Lines of a dump; `how`: a listing that would do, too. Raises InputError."""
    parent = ""
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.startswith("#"):
            continue
        match = _LINE.fullmatch(line.rstrip())
        if match is None:
            why = f"{line[:60]!r}: expected {how} or QOS - 'name':... (sacctmgr dump)"
            raise InputError(str(path), why, line=number)
        values = {key: value.strip("'\"") for key, value in _OPTION.findall(match[3])}
        if match[1] == PARENT:
            parent = match[2]
        else:
            yield DumpedLine(
                line=number, kind=match[1], name=match[2], parent=parent, values=values
            )
