"""Receive times of batches, as each user's newest runs with workers show them (receiving.py).

Rows are noted as they come, by owner; their runs are made when a job of that user is first asked
about. One thread notes; others may ask at the same time, because a user's rows are replaced whole.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from slurm_ext.advisor.evidence.reach import Rows
from slurm_ext.core.records import LoaderRun
from slurm_ext.model.throughput.receiving import ReceiveTimes, of_user

NEWEST = 16  # runs of a user


@dataclass(slots=True)
class NotedRuns:
    """Rows of each owner's runs, and their times where they were asked for."""

    rows: dict[int, tuple[int, ...]] = field(default_factory=dict)
    known: dict[int, tuple[tuple[int, ...], ReceiveTimes]] = field(default_factory=dict)

    def kept(self, rows: Rows) -> "NotedRuns":
        """The same in a table that has only these rows (sorted), all of ours among them."""
        moved = {
            owner: tuple(rows.searchsorted(mine).tolist()) for owner, mine in self.rows.items()
        }
        known = [
            (owner, times) for owner, (of, times) in self.known.items() if of is self.rows[owner]
        ]
        return NotedRuns(moved, {owner: (moved[owner], times) for owner, times in known})


class OwnReceives:
    """Receive times of each user, of nobody else's runs."""

    def __init__(
        self,
        runs_at: Callable[[Sequence[int]], list[LoaderRun]],
        owners: Mapping[str | None, int],
        noted: NotedRuns | None = None,
    ) -> None:
        """`runs_at`: makes the runs of rows; `owners`: by user; `noted`: so far."""
        self._runs_at, self._owners = runs_at, owners
        self.noted = NotedRuns() if noted is None else noted

    def note(self, rows: npt.NDArray[np.int64], owners: npt.NDArray[np.int32]) -> None:
        """Note sound runs with workers, oldest first."""
        order = np.argsort(owners, kind="stable")
        mine = owners[order]
        behind = np.searchsorted(mine, mine, side="right") - np.arange(len(mine))
        newest = order[behind <= NEWEST]
        for row, owner in zip(rows[newest].tolist(), owners[newest].tolist(), strict=True):
            self.noted.rows[owner] = (*self.noted.rows.get(owner, ())[1 - NEWEST :], row)

    def rows(self) -> list[int]:
        """All rows that are noted."""
        return [row for rows in self.noted.rows.values() for row in rows]

    def of(self, user: str) -> ReceiveTimes:
        """The user's, by machine; nothing of a user who is not known."""
        owner = self._owners.get(user) if user else None
        rows = None if owner is None else self.noted.rows.get(owner)
        if owner is None or rows is None:
            return ()
        rates = self.noted.known.get(owner)
        if rates is None or rates[0] is not rows:
            rates = self.noted.known[owner] = (rows, of_user(self._runs_at(rows[::-1])))
        return rates[1]
