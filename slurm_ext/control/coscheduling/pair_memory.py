"""Memory of the co-scheduling loop, on the disk before it acts: `<state_dir>/pairing`."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from slurm_ext.control.coscheduling.jobs import BeginTimeHold
from slurm_ext.control.loops.loop_state import LoopState
from slurm_ext.policy.colocation.colocation_monitor import (
    PairCooldown,
    cooldowns_as_json,
    cooldowns_from_json,
)


@dataclass(slots=True)
class PairMemory:
    """Leases that Slurm holds for us, pairs that are kept apart, and jobs' rates and memory."""

    holds: dict[str, BeginTimeHold] = field(default_factory=dict)  # by job
    cooldowns: dict[frozenset[str], PairCooldown] = field(default_factory=dict)  # by solo keys
    solo_rates: dict[str, float] = field(default_factory=dict)  # by solo key: instructions/s
    held_bytes: dict[str, float] = field(default_factory=dict)  # by solo key: memory, at most

    def as_json(self) -> dict[str, Any]:
        """Return JSON: holds by job, cooldowns as [keys, last_s, times], rates and memory by key.

        The keys "leases" and "grudges" are those that earlier versions wrote.
        """
        return {
            "leases": {job: asdict(hold) for job, hold in self.holds.items()},
            "grudges": cooldowns_as_json(self.cooldowns),
            "solo_rates": self.solo_rates,
            "held_bytes": self.held_bytes,
        }

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> "PairMemory":
        """Read what as_json wrote; {} is no memory yet. Raises ValueError, KeyError, TypeError."""
        if not body:
            return cls()
        return cls(
            holds={job: BeginTimeHold(**hold) for job, hold in body["leases"].items()},
            cooldowns=cooldowns_from_json(body["grudges"]),
            solo_rates={key: float(rate) for key, rate in body["solo_rates"].items()},
            held_bytes={key: float(size) for key, size in body.get("held_bytes", {}).items()},
        )


def pair_state(state_dir: Path, *, writes: bool = True) -> LoopState:
    """State of the loop; the advisor reads the pairs that are kept apart from it."""
    return LoopState(state_dir / "pairing", "dlqueue control --pairs", writes=writes)
