"""Reads QOS from what `sacctmgr -P show qos` prints, or from a file of `sacctmgr dump`.

A dump has them since sacctmgr writes lines `QOS - 'name':...`; its Cluster, Account and User lines
tell the default QOS (DefaultQOS).
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

from slurm_ext.core.errors import InputError
from slurm_ext.simulate.limits.qos import Qos, QosTable
from slurm_ext.simulate.limits.qos_values import qos_of
from slurm_ext.simulate.limits.sacctmgr_file import dumped, header_of, lines_of, listed

HOW = "Name|Priority|... (sacctmgr -P show qos)"
Row = tuple[int, str, Mapping[str, str]]  # number of the line, name, values by column


def read_qos(path: Path) -> QosTable:
    """The QOS of a file. Raises InputError, naming the line and the column."""
    lines = lines_of(path)
    if "Name" in header_of(lines):
        rows = ((number, values.pop("Name"), values) for number, values in listed(lines, path))
        return QosTable(source=str(path), qos=_all_of(rows, path))
    return _dumped(lines, path)


def _all_of(rows: Iterable[Row], path: Path) -> dict[str, Qos]:
    by_name: dict[str, Qos] = {}
    for number, name, values in rows:
        if not name or name in by_name:
            raise InputError(str(path), f"QOS {name!r}: expected a new name", line=number)
        try:
            by_name[name] = qos_of(name, values)
        except ValueError as error:
            raise InputError(str(path), f"QOS {name!r}: {error}", line=number) from None
    if not by_name:
        how = "give what `sacctmgr -P show qos` prints, with its header"
        raise InputError(str(path), f"has no QOS (older sacctmgr dump none): {how}")
    return by_name


def _dumped(lines: list[str], path: Path) -> QosTable:
    rows: list[Row] = []
    usual: dict[tuple[str, str], str] = {}
    for line in dumped(lines, path, HOW):
        if line.kind == "QOS":
            rows.append((line.line, line.name, line.values))
        elif default := line.values.get("DefaultQOS"):
            usual[who(line.kind, line.name, line.parent)] = default
    return QosTable(source=str(path), qos=_all_of(rows, path), usual=usual)


def who(kind: str, name: str, parent: str) -> tuple[str, str]:
    """Account and user of a dump's line; both empty: everybody."""
    return {"Account": (name, ""), "User": (parent, name)}.get(kind, ("", ""))
