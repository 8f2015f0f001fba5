"""Reads QOS from what `sacctmgr -P show qos` prints, or from a file of `sacctmgr dump`.

A dump has them since sacctmgr writes lines `QOS - 'name':...`; its Cluster, Account and User lines
tell the default QOS (DefaultQOS).
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from slurm_ext.core.errors import InputError, unreadable
from slurm_ext.simulate.limits.qos import Qos, QosTable
from slurm_ext.simulate.limits.qos_values import qos_of

MOST_BYTES = 1 << 26
_LINE = re.compile(r"(\w+) - '([^']*)'((?::.*)?)")
_OPTION = re.compile(r":(\w+)=('[^']*'|\"[^\"]*\"|[^:]*)")
Row = tuple[int, str, Mapping[str, str]]  # number of the line, name, values by column


def read_qos(path: Path) -> QosTable:
    """The QOS of a file. Raises InputError, naming the line and the column."""
    try:
        if path.stat().st_size > MOST_BYTES:
            raise InputError(str(path), f"is larger than {MOST_BYTES >> 20} MiB")
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise unreadable(str(path), error) from None
    header = lines[0].split("|") if lines else []
    if "Name" in header:
        return QosTable(source=str(path), qos=_all_of(_listed(lines, header, path), path))
    return _dumped(lines, path)


def _all_of(rows: Iterator[Row], path: Path) -> dict[str, Qos]:
    found: dict[str, Qos] = {}
    for number, name, values in rows:
        if not name or name in found:
            raise InputError(str(path), f"QOS {name!r}: expected a new name", line=number)
        try:
            found[name] = qos_of(name, values)
        except ValueError as error:
            raise InputError(str(path), f"QOS {name!r}: {error}", line=number) from None
    if not found:
        how = "give what `sacctmgr -P show qos` prints, with its header"
        raise InputError(str(path), f"has no QOS (older sacctmgr dump none): {how}")
    return found


def _listed(lines: list[str], header: list[str], path: Path) -> Iterator[Row]:
    """Rows of `sacctmgr -P show qos`."""
    for number, line in enumerate(lines[1:], start=2):
        cells = line.split("|")
        if line and len(cells) != len(header):
            why = f"{len(cells)} fields, expected {len(header)} as in line 1"
            raise InputError(str(path), why, line=number)
        if line:
            values = dict(zip(header, cells, strict=True))
            yield number, values.pop("Name"), values


def _dumped(lines: list[str], path: Path) -> QosTable:
    rows: list[Row] = []
    usual: dict[tuple[str, str], str] = {}
    parent = ""
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.startswith("#"):
            continue
        kind, name, options = _parts(line, number, path)
        if kind == "QOS":
            rows.append((number, name, options))
        elif kind == "Parent":
            parent = name
        elif default := options.get("DefaultQOS"):
            usual[_who(kind, name, parent)] = default
    return QosTable(source=str(path), qos=_all_of(iter(rows), path), usual=usual)


def _who(kind: str, name: str, parent: str) -> tuple[str, str]:
    """Account and user of a line; both empty: everybody."""
    return {"Account": (name, ""), "User": (parent, name)}.get(kind, ("", ""))


def _parts(line: str, number: int, path: Path) -> tuple[str, str, dict[str, str]]:
    match = _LINE.fullmatch(line.rstrip())
    if match is None:
        how = "Name|Priority|... (sacctmgr -P show qos) or QOS - 'name':... (sacctmgr dump)"
        raise InputError(str(path), f"{line[:60]!r}: expected {how}", line=number)
    options = {key: value.strip("'\"") for key, value in _OPTION.findall(match[3])}
    return match[1], match[2], options
