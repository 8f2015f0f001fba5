"""The decision on a submission that agreed to share a GPU."""

from dataclasses import dataclass, field
from math import ceil
from typing import Any

from slurm_ext.core.records import Edits, Mode


@dataclass(frozen=True, slots=True, kw_only=True)
class SharingDecision:
    """The decision on a submission that agreed to share; the ledger keeps it."""

    mode: Mode
    share: bool
    why: str
    floor: float
    gres: str | None = None
    worst: float | None = None  # lower bound of its speed, of its solo speed
    usual: float | None = None  # expected beside that same job
    evidence: str | None = None
    beside: str | None = None  # solo key of the worst it may meet
    partners: tuple[str, ...] = ()  # jobs that it was weighed against
    across: bool = False  # whether the other job may be another user's
    edits: Edits = field(default_factory=Edits, repr=False)

    def as_json(self, *, done: bool) -> dict[str, Any]:
        """For the ledger; `done`: whether the job was really changed."""
        body = {name: getattr(self, name) for name in self.__slots__ if name != "edits"}
        return {"v": 1, **body, "mode": self.mode.value, "done": done}


def slower(speed: float) -> int:
    """Per cent that the job is slower; never less than it is."""
    return max(0, ceil(round(100 * (1 - speed), 6)))
