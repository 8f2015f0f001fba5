"""Nodes of each virtual cluster, from a CSV."""

import csv
from pathlib import Path

from slurm_ext.core.errors import InputError, unreadable

MOST = 100_000  # nodes: no cluster has as many


def read_vc_nodes(path: Path) -> dict[str, int]:
    """Nodes by name, from the columns vc and nodes. Raises InputError, naming the line."""
    nodes: dict[str, int] = {}
    try:
        with path.open(encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file, restval="")
            if not {"vc", "nodes"} <= set(reader.fieldnames or ()):
                raise InputError(str(path), "expected the columns vc and nodes", line=1)
            for row in reader:
                count = _count(row["nodes"])
                if count is None or row["vc"] in nodes:
                    why = f"{row['vc']!r}, {row['nodes'][:40]!r}: expected a new name, and nodes"
                    raise InputError(str(path), f"{why} from 1 to {MOST}", line=reader.line_num)
                nodes[row["vc"]] = count
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise unreadable(str(path), error) from None
    if not nodes:
        raise InputError(str(path), "names no virtual cluster")
    return nodes


def _count(text: str) -> int | None:
    """None: no number of nodes."""
    fine = text.isascii() and text.isdecimal() and len(text) <= len(str(MOST))
    return int(text) if fine and 1 <= int(text) <= MOST else None
