"""Writing of the summary while the process works, at its passes' ends and at Python's."""

from __future__ import annotations

import os
import time
from typing import Any, Callable

from . import summary
from .directive import Directive
from .faults import Faults

_WRITE_AFTER_S = (1.0, 2.0)  # then every
_WRITE_LIVE_AFTER_S = (0.5, 1.0, 1.5, 2.0)
_WRITE_EVERY_S = 5.0
_WRITE_LIVE_S = 1.0
_LEAST_PAUSE_S, _MOST_PAUSE_S = 1.0, 60.0  # between writings at the ends of passes
_PAUSE_TIMES = 200.0  # what the last writing took: renaming on a busy disk takes 20 ms


class SummaryWriter:
    """The summary of one process; `measured` gives what it holds as of now."""

    def __init__(
        self, directive: Directive, measured: Callable[[], dict[str, Any]], faults: Faults
    ) -> None:
        self.directive, self.measured, self.faults = directive, measured, faults
        self._next_write = 0.0  # a pass that ends earlier is written later
        # With a controller at work, differences of two summaries are its measurement.
        self._write_every_s = _WRITE_LIVE_S if directive.is_controlled else _WRITE_EVERY_S
        self._facts = summary.process_facts()
        delays = _WRITE_LIVE_AFTER_S if directive.is_controlled else _WRITE_AFTER_S
        self._write_at = [time.perf_counter() + delay for delay in delays]
        self._group: tuple[int, int] | None = None

    def started(self, now_s: float) -> None:
        """The process began at this Unix time, before its first DataLoader or step."""
        self._facts["started_s"] = now_s

    def note_group(self) -> None:
        """Keep the process's rank: many programs leave their group before they end."""
        self._group = summary.joined() or self._group

    @property
    def grouped(self) -> bool:
        """True once the process was seen in a group of torch.distributed's."""
        return self._group is not None

    def is_this_process(self) -> bool:
        """False in a forked child."""
        return bool(self._facts["pid"] == os.getpid())

    def write_if_due(self, now: float) -> None:
        """Write the summary of a process that works, every few seconds."""
        if now >= self._write_at[0]:
            self._write_at[:] = self._write_at[1:] or [now + self._write_every_s]
            self.write(finished=False)
            if not self.directive.is_controlled:
                self._write_at[0] = max(self._write_at[0], self._next_write)

    def pass_ended(self, now: float) -> None:
        """Write the summary if enough time is between."""
        if now >= self._next_write:
            self.write(finished=False)

    def write(self, finished: bool) -> None:
        """Writes the summary; a full disk or a folder that is gone leaves the job alone."""
        began = time.perf_counter()
        self.note_group()
        body = summary.document(
            self._facts,
            self.directive,
            self.measured(),
            self.faults.clauses,
            finished,
            self._group,
        )
        try:
            summary.write(self.directive.run_dir, body)
        except OSError as error:
            self.faults.note(error)
        now = time.perf_counter()
        pause_s = max(_LEAST_PAUSE_S, _PAUSE_TIMES * (now - began))
        self._next_write = now + min(pause_s, _MOST_PAUSE_S)
