"""Measuring in a process without torch's DataLoader: the steps that its framework tells."""

from __future__ import annotations

from typing import Any

from .counters.turns import Turns
from .directive import Directive
from .ends import at_end
from .faults import Faults
from .summary_writer import SummaryWriter


class StepSession:
    """Lives from the first step to the end of the process, or until torch's loaders are there."""

    def __init__(self, directive: Directive, turns: Turns) -> None:
        self.turns = turns
        self.faults = Faults()
        self.safely = self.faults.safely
        self.writer = SummaryWriter(directive, self._measured, self.faults)
        self.leave = at_end(self.finish)

    def _measured(self) -> dict[str, Any]:
        steps = self.turns.steps.row()
        return {"data_ranks": None, "optimizer": steps, "communication": None, "loaders": []}

    def finish(self) -> None:
        """At Python's end."""
        if self.writer.is_this_process():
            self.safely(self.writer.write, True)
