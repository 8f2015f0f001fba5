"""What the pairing remembers, on the disk before it acts: `<state_dir>/pairing`."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from slurm_ext.control.coscheduling.jobs import BeginTimeHold
from slurm_ext.control.loops.action_log import ActionLog
from slurm_ext.control.loops.loop_state import KeptFolder
from slurm_ext.core.actions import Action
from slurm_ext.policy.colocation.colocation_monitor import (
    PairCooldown,
    cooldowns_as_json,
    cooldowns_from_json,
)

VERSION = 1


@dataclass(slots=True)
class PairMemory:
    """Leases that Slurm holds for us, pairs that are kept apart, and jobs' rates and memory."""

    leases: dict[str, BeginTimeHold] = field(default_factory=dict)  # by job
    cooldowns: dict[frozenset[str], PairCooldown] = field(default_factory=dict)  # by solo keys
    solo_rates: dict[str, float] = field(default_factory=dict)  # by solo key: instructions/s
    held_bytes: dict[str, float] = field(default_factory=dict)  # by solo key: memory, at most

    def as_json(self) -> dict[str, Any]:
        """Version 1: leases by job, grudges as [keys, last_s, times], rates by key."""
        return {
            "v": VERSION,
            "leases": {job: asdict(lease) for job, lease in self.leases.items()},
            "grudges": cooldowns_as_json(self.cooldowns),
            "solo_rates": self.solo_rates,
            "held_bytes": self.held_bytes,
        }

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> "PairMemory":
        """What as_json wrote. Raises ValueError, KeyError or TypeError."""
        if body["v"] != VERSION:
            raise ValueError(f"version {body['v']!r}")
        return cls(
            leases={job: BeginTimeHold(**lease) for job, lease in body["leases"].items()},
            cooldowns=cooldowns_from_json(body["grudges"]),
            solo_rates={key: float(rate) for key, rate in body["solo_rates"].items()},
            held_bytes={key: float(held) for key, held in body.get("held_bytes", {}).items()},
        )


class PairingFolder(KeptFolder):
    """The pairing's own folder; the advisor reads there which pairs are kept apart. OSError."""

    def __init__(self, state_dir: Path) -> None:
        super().__init__(state_dir / "pairing", "dlqueue control --pairs")
        self._ledger = ActionLog(state_dir, "pair")

    def load(self) -> PairMemory:
        """What an earlier one kept; nothing where there was none. Raises InputError."""
        return self._kept(PairMemory.from_json, PairMemory)

    def keep(self, memory: PairMemory) -> None:
        """Replace it, whole, and on the disk before this returns: it is what is put back."""
        self._keep(memory.as_json())

    def note(self, moves: Sequence[Action]) -> None:
        """Into the ledger of moves, from which history and `explain` have them."""
        self._ledger.write(moves)


class Nowhere(PairingFolder):
    """Keeps nothing, for a look without a trace."""

    def __init__(self, state_dir: Path) -> None:
        super().__init__(state_dir)
        self.status: dict[str, Any] = {}

    def keep(self, memory: PairMemory) -> None:
        """Not at all."""

    def note(self, moves: Sequence[Action]) -> None:
        """Not at all."""

    def tell(self, status: Mapping[str, Any]) -> None:
        """For whoever asks this object."""
        self.status = dict(status)
