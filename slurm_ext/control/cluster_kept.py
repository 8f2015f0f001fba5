"""What a cluster loop keeps between its rounds: `<state_dir>/control/<kind>`."""

import fcntl
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from slurm_ext.facts.errors import InputError
from slurm_ext.node.files import read_bounded, write_whole

VERSION = 1
MAX_BYTES = 1 << 26


class LoopFolder:
    """The folder of one loop, of one process at a time. Raises OSError."""

    def __init__(self, state_dir: Path, kind: str) -> None:
        self.path, self.kind = state_dir / "control" / kind, kind

    def lock(self) -> int:
        """The right to be this loop, until the process ends. Raises InputError."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        held = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(held)
            said = f"another `dlqueue control --{self.kind}` works"
            raise InputError(str(self.path), said) from None
        return held

    def load(self) -> dict[str, Any]:
        """What `keep` was given last; empty where it never was. Raises InputError."""
        path = self.path / "kept.json"
        try:
            body = json.loads(read_bounded(str(path), MAX_BYTES))
            if body["v"] != VERSION:
                raise ValueError(f"version {body['v']!r}, expected {VERSION}")
            return dict(body["kept"])
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(str(path), f"cannot be used: {error!r}; remove it") from None

    def keep(self, kept: Mapping[str, Any]) -> None:
        """Replace it, whole, and on the disk before this returns: it is what is put back."""
        text = json.dumps({"v": VERSION, "kept": kept}).encode()
        write_whole(str(self.path / "kept.json"), text, durable=True)

    def tell(self, status: Mapping[str, Any]) -> None:
        """What `dlqueue control --<kind> status` shows."""
        write_whole(str(self.path / "status.json"), json.dumps(status).encode(), durable=False)

    def told(self) -> dict[str, Any] | None:
        """The last status; None: nobody works."""
        try:
            return dict(json.loads(read_bounded(str(self.path / "status.json"), MAX_BYTES)))
        except (OSError, ValueError):
            return None

    def silent(self) -> None:
        """No status any more."""
        (self.path / "status.json").unlink(missing_ok=True)


class ReadOnly(LoopFolder):
    """Reads what is kept and writes nothing, for a look without a trace."""

    def __init__(self, state_dir: Path, kind: str) -> None:
        super().__init__(state_dir, kind)
        self.status: dict[str, Any] = {}

    def keep(self, kept: Mapping[str, Any]) -> None:
        """Not at all."""

    def tell(self, status: Mapping[str, Any]) -> None:
        """For whoever asks this object."""
        self.status = dict(status)
