"""How many nodes each virtual cluster has, from a CSV."""

import csv
from pathlib import Path

from slurm_ext.facts.errors import InputError


def read_vc_nodes(path: Path) -> dict[str, int]:
    """Nodes by name, from the columns vc and nodes. Raises InputError, naming the line."""
    found: dict[str, int] = {}
    try:
        with path.open(encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file, restval="")
            if not {"vc", "nodes"} <= set(reader.fieldnames or ()):
                raise InputError(str(path), "expected the columns vc and nodes", line=1)
            for row in reader:
                if not row["nodes"].isdecimal() or int(row["nodes"]) < 1 or row["vc"] in found:
                    why = f"{row['vc']},{row['nodes']}: expected a new name, and nodes from 1 on"
                    raise InputError(str(path), why, line=reader.line_num)
                found[row["vc"]] = int(row["nodes"])
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(str(path), f"cannot be read: {error}") from None
    if not found:
        raise InputError(str(path), "names no virtual cluster")
    return found
