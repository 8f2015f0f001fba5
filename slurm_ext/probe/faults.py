"""Faults of the probe itself: noted for the summary, never the job's."""

from __future__ import annotations

from typing import Any, Callable

_MOST, _MOST_CHARACTERS = 8, 200


class Faults:
    """Each fault once, in a clause."""

    def __init__(self) -> None:
        self.clauses: list[str] = []

    def note(self, error: BaseException) -> None:
        """Keep what failed."""
        clause = f"{type(error).__name__}: {error}"[:_MOST_CHARACTERS]
        if clause not in self.clauses and len(self.clauses) < _MOST:
            self.clauses.append(clause)

    def safely(self, act: Callable[..., Any], *args: Any) -> Any:
        """`act(*args)`; None if it fails, for the probe's faults are not the job's."""
        try:
            return act(*args)
        except Exception as error:  # see above
            self.note(error)
            return None
