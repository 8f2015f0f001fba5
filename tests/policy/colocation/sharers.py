"""Candidates, and speeds in a table."""

from collections.abc import Mapping, Sequence
from typing import Any

from slurm_ext.core.gpu_sharing import RelativeSpeed, SoloProfile, SpeedBasis
from slurm_ext.policy.colocation.terms import Candidate, SharingRules

RULES = SharingRules()


def job(name: str, **changes: Any) -> Candidate:
    """A job of ann's that agreed; its key is its name's first letter."""
    fields: dict[str, Any] = {"user": "ann", "opted_in": True, "remaining_s": 100.0, **changes}
    return Candidate(job=name, solo=fields.pop("solo", SoloProfile(key=name[0])), **fields)


class Table:
    """Lower bounds by key and key beside; counts the questions."""

    def __init__(self, lows: Mapping[str, float] | None = None, usual: float = 1.0) -> None:
        self.lows, self.usual = lows or {}, usual
        self.asked: list[tuple[str, list[str], str]] = []

    def speed(
        self, job: SoloProfile, beside: Sequence[SoloProfile], device: str = "cpu"
    ) -> RelativeSpeed:
        """The slowest beside any of them."""
        self.asked.append((job.key, [other.key for other in beside], device))
        low = min((self.lows.get(job.key + o.key, self.usual) for o in beside), default=1.0)
        return RelativeSpeed(mean=low, low=low, high=1.0, evidence=SpeedBasis.PAIR)
