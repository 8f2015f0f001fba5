"""What the pairing remembers, on the disk before it acts: `<state_dir>/pairing`."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from slurm_ext.control.coscheduling.jobs import Lease
from slurm_ext.control.loops.action_log import Ledger
from slurm_ext.control.loops.loop_state import KeptFolder
from slurm_ext.core.actions import Action
from slurm_ext.policy.colocation.colocation_monitor import (
    Grudge,
    grudges_as_json,
    grudges_from_json,
)

VERSION = 1


@dataclass(slots=True)
class Memory:
    """Leases that Slurm holds for us, pairs that are kept apart, and jobs' rates and memory."""

    leases: dict[str, Lease] = field(default_factory=dict)  # by job
    grudges: dict[frozenset[str], Grudge] = field(default_factory=dict)  # by solo keys
    solo_rates: dict[str, float] = field(default_factory=dict)  # by solo key: instructions/s
    held_bytes: dict[str, float] = field(default_factory=dict)  # by solo key: memory, at most

    def as_json(self) -> dict[str, Any]:
        """Version 1: leases by job, grudges as [keys, last_s, times], rates by key."""
        return {
            "v": VERSION,
            "leases": {job: asdict(lease) for job, lease in self.leases.items()},
            "grudges": grudges_as_json(self.grudges),
            "solo_rates": self.solo_rates,
            "held_bytes": self.held_bytes,
        }

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> "Memory":
        """What as_json wrote. Raises ValueError, KeyError or TypeError."""
        if body["v"] != VERSION:
            raise ValueError(f"version {body['v']!r}")
        return cls(
            leases={job: Lease(**lease) for job, lease in body["leases"].items()},
            grudges=grudges_from_json(body["grudges"]),
            solo_rates={key: float(rate) for key, rate in body["solo_rates"].items()},
            held_bytes={key: float(held) for key, held in body.get("held_bytes", {}).items()},
        )


class PairingFolder(KeptFolder):
    """The pairing's own folder; the advisor reads there which pairs are kept apart. OSError."""

    def __init__(self, state_dir: Path) -> None:
        super().__init__(state_dir / "pairing", "dlqueue control --pairs")
        self._ledger = Ledger(state_dir, "pair")

    def load(self) -> Memory:
        """What an earlier one kept; nothing where there was none. Raises InputError."""
        return self._kept(Memory.from_json, Memory)

    def keep(self, memory: Memory) -> None:
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

    def keep(self, memory: Memory) -> None:
        """Not at all."""

    def note(self, moves: Sequence[Action]) -> None:
        """Not at all."""

    def tell(self, status: Mapping[str, Any]) -> None:
        """For whoever asks this object."""
        self.status = dict(status)
