"""Rows measured so far, in a file, so that a campaign goes on where it was stopped."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from contrib.bench.campaign.measure import Counts
from contrib.bench.campaign.row import Row
from slurm_ext.core.errors import InputError

_BESIDE = ("commit", "load", "took_s")  # of how a row was measured


class State:
    """Rows by fault, in the file `path`; nowhere without one."""

    def __init__(self, path: Path | None, counts: Counts) -> None:
        self._path, self._counts = path, asdict(counts)
        self.rows: dict[str, dict[str, Any]] = {}
        if path is not None and path.exists():
            self._read(path)

    def _read(self, path: Path) -> None:
        try:
            kept = json.loads(path.read_text())
            counts, self.rows = kept["counts"], kept["rows"]
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(str(path), f"is no campaign's state: {error!r}") from None
        if counts != self._counts:
            raise InputError(str(path), f"holds rows of {counts}, not of {self._counts}")

    def keep(self, row: Row, *, commit: str, load: float, seconds: float) -> None:
        """Keep one row, with the commit that was measured and the machine's load before it."""
        beside = (commit, round(load, 1), round(seconds))
        self.rows[row.fault] = {**row.as_json(), **dict(zip(_BESIDE, beside, strict=True))}
        if self._path is not None:
            text = json.dumps({"counts": self._counts, "rows": self.rows}, indent=1)
            hidden = self._path.with_name(f".{self._path.name}")
            hidden.write_text(text + "\n")
            hidden.replace(self._path)

    def row(self, fault: str) -> Row | None:
        """The row of a fault that was measured."""
        kept = self.rows.get(fault)
        if kept is None:
            return None
        return Row(**{name: value for name, value in kept.items() if name not in _BESIDE})
