"""An attack of one user, and two Unix users of a sandbox to carry it out."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ATTACKER, VICTIM = "nobody", "games"
"""Users that every Debian has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Happened:
    """Result of an attack."""

    held: bool  # no harm was done
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack:
    """One attack: `act` carries it out in a new folder and looks whether harm was done."""

    name: str  # such as wrong_type_in_summary
    row: int  # of the threat model in SECURITY.md
    tried: str
    before: str  # what came of it before the border was there
    act: Callable[[Path], Happened]


def as_user(name: str) -> dict[str, Any]:
    """Options of subprocess.run, and of SandboxClient.run, for a command of that user."""
    import pwd

    entry = pwd.getpwnam(name)
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
