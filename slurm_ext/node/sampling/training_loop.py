"""Seconds of a job's loops of training, and of their waits for data, while the job runs.

Its user's own processes write the summaries: they are read as the epilog reads them, within the
same bounds. What a look cost sets the time until the next one.
"""

from __future__ import annotations

import time

from slurm_ext.node.counters.columns import LARGEST

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

EVERY_S = 1.0  # at most: a probe writes at its first second, then every few
COST_SHARE = 0.005  # of a core
READ_S = 0.2  # for one look


class LoopTimes:
    """The run folder of a job whose user is `uid`; `totals` are seconds in loops, and waiting."""

    def __init__(self, run_dir: str, uid: int) -> None:
        self._run_dir, self._uid = run_dir, uid
        self._due_s = 0.0
        self.totals: tuple[float | None, float | None] = (None, None)

    def look(self, now: float, *, last: bool = False) -> None:
        """Read the summaries, unless the last look was just now; `now` is the uptime."""
        if now < self._due_s and not last:
            return
        from slurm_ext.node.record.summaries import collect

        spent_s = time.process_time()
        try:
            summaries = collect(self._run_dir, self._uid, time.monotonic() + READ_S).summaries
        except OSError:
            summaries = []  # its user is removing the folder
        self.totals = loop_totals(summaries) if summaries else self.totals
        spent_s = time.process_time() - spent_s
        self._due_s = now + max(EVERY_S, spent_s / COST_SHARE)


def loop_totals(summaries: Iterable[Mapping[str, Any]]) -> tuple[float | None, float | None]:
    """Sums over processes, loaders and phases; None where no loader says so, or it is nonsense."""
    loaders = [loader for summary in summaries for loader in summary["loaders"]]
    phases = [phase for loader in loaders for phase in loader["phases"]]
    loop_s, wait_s = (sum(phase.get(n) or 0.0 for phase in phases) for n in ("wall_s", "wait_s"))
    if not 0 < loop_s < LARGEST or wait_s > loop_s:
        return None, None
    return round(loop_s, 3), round(wait_s, 3)
