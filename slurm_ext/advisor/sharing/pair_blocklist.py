"""Pairs that co-scheduling found too slow together: submissions do not share with them either.

Read from the undo file of the co-scheduling loop (control/coscheduling/pair_memory.py writes it):
`grudges` holds the cooldowns as policy/colocation/colocation_monitor.py writes them.
"""

import json
from pathlib import Path

from slurm_ext.core.errors import InputError
from slurm_ext.core.files import file_version
from slurm_ext.policy.colocation.colocation_monitor import PairCooldown, cooldowns_from_json

FOLDER = "pairing"
FILES = ("kept.json", "undo.json")  # kept.json: of earlier versions, until the loop writes
VERSION = 1
MAX_BYTES = 1 << 24


class PairBlocklist:
    """Cooldowns of the co-scheduling loop, read again when its file changes."""

    def __init__(self) -> None:
        self.known: dict[frozenset[str], PairCooldown] = {}
        self._version: tuple[int, int, int] | None = None

    def look(self, state_dir: Path) -> None:
        """Read the file if it changed. InputError if it is damaged: the cooldowns stay."""
        old, path = (state_dir / FOLDER / name for name in FILES)
        try:
            path = old if old.exists() else path
            version = file_version(path)
            if version != self._version:
                self._version = version
                self.known = {} if version is None else _read(path, version[2])
        except FileNotFoundError:  # it was removed meanwhile
            self._version, self.known = None, {}
        except OSError as error:
            raise InputError(str(path), f"cannot be read: {error.strerror}") from None


def _read(path: Path, size: int) -> dict[frozenset[str], PairCooldown]:
    try:
        if size > MAX_BYTES:
            raise ValueError(f"{size} bytes, at most {MAX_BYTES} are read")
        body = json.loads(path.read_bytes())
        if body["v"] != VERSION:
            raise ValueError("another version")
        return cooldowns_from_json(body.get("kept", body)["grudges"])
    except (AttributeError, LookupError, TypeError, ValueError, RecursionError) as error:
        raise InputError(str(path), f"is not the pairing's memory: {error!r:.200}") from None
