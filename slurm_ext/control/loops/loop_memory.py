"""What a cluster loop keeps between its rounds: `<state_dir>/control/<kind>`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from slurm_ext.control.loops.loop_state import KeptFolder

VERSION = 1


class LoopFolder(KeptFolder):
    """The folder of one loop, of one process at a time. Raises OSError."""

    def __init__(self, state_dir: Path, kind: str) -> None:
        super().__init__(state_dir / "control" / kind, f"dlqueue control --{kind}")
        self.kind = kind

    def load(self) -> dict[str, Any]:
        """What `keep` was given last; empty where it never was. Raises InputError."""
        return self._kept(_of_this_version, dict)

    def keep(self, kept: Mapping[str, Any]) -> None:
        """Replace it, whole, and on the disk before this returns: it is what is put back."""
        self._keep({"v": VERSION, "kept": kept})


def _of_this_version(body: Any) -> dict[str, Any]:
    if body["v"] != VERSION:
        raise ValueError(f"version {body['v']!r}, expected {VERSION}")
    return dict(body["kept"])


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
