"""Pairs that the pairing found to go badly: submissions are not put together with them either.

Read from `<state_dir>/pairing/kept.json` (version 1; control/coscheduling/pair_memory.py writes
it): `cooldowns`
as policy/colocation/colocation_monitor.py has them.
"""

import json
from pathlib import Path

from slurm_ext.core.errors import InputError
from slurm_ext.core.files import file_version
from slurm_ext.policy.colocation.colocation_monitor import PairCooldown, cooldowns_from_json

FILE = Path("pairing") / "kept.json"
VERSION = 1
MAX_BYTES = 1 << 24


class PairBlocklist:
    """What the pairing remembers, read again when its file is another one."""

    def __init__(self) -> None:
        self.known: dict[frozenset[str], PairCooldown] = {}
        self._version: tuple[int, int, int] | None = None

    def look(self, state_dir: Path) -> None:
        """Raises InputError where the file cannot be used; what was known before stays."""
        path = state_dir / FILE
        try:
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
        return cooldowns_from_json(body["grudges"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(str(path), f"is not the pairing's memory: {error!r:.200}") from None
