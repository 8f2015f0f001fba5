"""A job's time line in bounded room: when it is full, every second row goes and the pace halves."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_ROWS = 240


class Timeline:
    """Rows of `columns.TIMELINE`, evenly spread over the job's life whatever its length."""

    def __init__(self, rows: Sequence[Sequence[float | None]] = (), stride: int = 1) -> None:
        self.rows = [list(row) for row in rows]
        self.stride = max(1, stride)
        self._skipped = 0

    def add(self, row: Sequence[float | None]) -> None:
        """Take every `stride`-th row."""
        self._skipped += 1
        if self._skipped < self.stride:
            return
        self._skipped = 0
        self.rows.append(list(row))
        if len(self.rows) > MAX_ROWS:
            self.rows = self.rows[::2]
            self.stride *= 2
