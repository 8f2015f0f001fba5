"""What the pairing remembers, on the disk before it acts: `<state_dir>/pairing`."""

import fcntl
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from slurm_ext.control.ledger import Ledger
from slurm_ext.control.pairing_jobs import Lease
from slurm_ext.facts.errors import InputError
from slurm_ext.facts.moves import Move
from slurm_ext.node.files import read_bounded, write_whole
from slurm_ext.policy.companions import Grudge, grudges_as_json, grudges_from_json

VERSION = 1
MAX_BYTES = 1 << 24


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


class PairingFolder:
    """The pairing's own folder. Raises OSError."""

    def __init__(self, state_dir: Path) -> None:
        self.path = state_dir / "pairing"
        self._ledger = Ledger(state_dir, "pair")

    def lock(self) -> int:
        """The right to steer this cluster's jobs, until the process ends. Raises InputError."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._give(self.path)
        held = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(held)
            raise InputError(str(self.path), "another `dlqueue control --pairs` works") from None
        return held

    def load(self) -> Memory:
        """What an earlier one kept; nothing where there was none. Raises InputError."""
        path = self.path / "kept.json"
        try:
            return Memory.from_json(json.loads(read_bounded(str(path), MAX_BYTES)))
        except FileNotFoundError:
            return Memory()
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(str(path), f"cannot be used: {error!r}; remove it") from None

    def keep(self, memory: Memory) -> None:
        """Replace it, whole."""
        text = json.dumps(memory.as_json()).encode()
        write_whole(str(self.path / "kept.json"), text, durable=False)
        self._give(self.path / "kept.json")

    def _give(self, path: Path) -> None:
        """The advisor reads which pairs are kept apart, and it is not root."""
        if os.geteuid() == 0:
            owner = self.path.parent.stat()
            os.chown(path, owner.st_uid, owner.st_gid, follow_symlinks=False)

    def note(self, moves: Sequence[Move]) -> None:
        """Into the ledger of moves, from which history and `explain` have them."""
        self._ledger.write(moves)

    def tell(self, status: Mapping[str, Any]) -> None:
        """What `dlqueue control status --pairs` shows."""
        write_whole(str(self.path / "status.json"), json.dumps(status).encode(), durable=False)

    def told(self) -> dict[str, Any] | None:
        """The last status; None: there is none."""
        try:
            return dict(json.loads(read_bounded(str(self.path / "status.json"), MAX_BYTES)))
        except (OSError, ValueError):
            return None

    def silent(self) -> None:
        """No status any more."""
        (self.path / "status.json").unlink(missing_ok=True)


class Nowhere(PairingFolder):
    """Keeps nothing, for a look without a trace."""

    def __init__(self, state_dir: Path) -> None:
        super().__init__(state_dir)
        self.status: dict[str, Any] = {}

    def keep(self, memory: Memory) -> None:
        """Not at all."""

    def note(self, moves: Sequence[Move]) -> None:
        """Not at all."""

    def tell(self, status: Mapping[str, Any]) -> None:
        """For whoever asks this object."""
        self.status = dict(status)
