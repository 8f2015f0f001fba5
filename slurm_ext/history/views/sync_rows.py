"""Evidence of gradients' buckets, streamed: what the advisor's memory of them is made of."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from slurm_ext.core.records import SyncRun
from slurm_ext.history.ingest.rows import inflated
from slurm_ext.history.store.names import SYNC_COLUMNS, SYNC_OF_LOADER
from slurm_ext.history.store.reading import explaining
from slurm_ext.history.store.store import History

_FLAGS = ("takes_lists", "user_caps")
_COLUMNS = [f"s.{name}" for name in SYNC_COLUMNS] + [f"l.{name}" for name in SYNC_OF_LOADER]
_NAMES = (*SYNC_COLUMNS, *SYNC_OF_LOADER)
_ROWS = f"""
SELECT s.id, l.key_script, r.user, {", ".join(_COLUMNS)}, s.gradients
FROM sync_runs s CROSS JOIN loader_runs l ON l.run = s.run CROSS JOIN runs r ON r.id = s.run
WHERE s.id > ? AND l.key_script IS NOT NULL ORDER BY s.id DESC LIMIT ?"""


@dataclass(frozen=True, slots=True)
class SyncRow:
    """One run with its place in the history, the key of its script and its user, if known."""

    id: int
    script: int
    run: SyncRun
    user: str = ""


def sync_rows(history: History, after_id: int, most: int) -> Iterator[SyncRow]:
    """The newest rows behind an id, the newest first. Raises HistoryError."""
    with explaining(history.path):
        rows = history.conn.execute(_ROWS, (after_id, most))
        for number, script, user, *values, gradients in rows:
            run = _run(dict(zip(_NAMES, values, strict=True)), gradients)
            if run is not None:
                yield SyncRow(number, script, run, user or "")


def _run(values: Mapping[str, Any], gradients: bytes | None) -> SyncRun | None:
    """The run; None where its lists were too long to be kept, or do not come back."""
    kept = inflated(gradients)
    if kept is None:
        return None
    lists = {name: tuple(values) for name, values in kept.items()}
    flags = {name: bool(values[name]) for name in _FLAGS}
    return SyncRun(**{**values, **flags, **lists})
