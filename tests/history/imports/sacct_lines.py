"""Lines of sacct, with the least that one may have."""

from datetime import UTC
from typing import Any

from slurm_ext.history.imports.sacct import records_of

LEAST = {
    "JobIDRaw": "7",
    "State": "COMPLETED",
    "Submit": "2026-10-01T09:00:00",
    "Start": "2026-10-01T10:00:00",
    "End": "2026-10-01T11:00:00",
}


def names(text: str) -> tuple[str, ...]:
    """Nodes of a list without brackets."""
    return tuple(text.split(",")) if text else ()


def records(**columns: str) -> list[dict[str, Any]]:
    """Records of a line with these columns."""
    return records_of({**LEAST, **columns}, cluster="here", zone=UTC, names=names)[0]


def only(section: str, **columns: str) -> dict[str, Any]:
    """A section of the only record."""
    (record,) = records(**columns)
    found = record[section]
    assert isinstance(found, dict)
    return found


def counters(**columns: str) -> dict[tuple[str, str, str], float]:
    """Counters of the only record."""
    (record,) = records(**columns)
    return {(c["name"], c["unit"], c["source"]): c["value"] for c in record["counters"]}
