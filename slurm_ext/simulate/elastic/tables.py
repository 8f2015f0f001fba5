"""CSV tables of a workload's folder, by column name."""

import csv
from collections.abc import Iterable
from pathlib import Path

from slurm_ext.core.errors import InputError, unreadable


def rows_of(path: Path, columns: Iterable[str]) -> list[dict[str, str]]:
    """Rows by column name. Raises InputError where the file lacks one of `columns`."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file, restval="")
            missing = sorted(set(columns) - set(reader.fieldnames or ()))
            if missing:
                raise InputError(str(path), f"no column {', '.join(missing)}", line=1)
            return list(reader)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise unreadable(str(path), error) from None
