"""Service section of a systemd unit, its system calls, and its exposure by systemd-analyze."""

import re
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from slurm_ext.core.errors import MissingError

UNITS = Path(__file__).parents[4] / "site_config" / "systemd"
MOST_EXPOSED = {"dlqueue.service": 3.0}
MOST_EXPOSED_LOOP = 4.0


@dataclass(frozen=True, slots=True)
class Unit:
    """Values of each directive of a unit's service, in their order."""

    path: Path
    values: dict[str, list[str]]

    def last(self, key: str) -> str:
        """The value that counts; empty if there is none."""
        return self.values.get(key, [""])[-1]

    def is_on(self, key: str) -> bool:
        """True if a directive that is a switch is on."""
        return self.last(key) in ("yes", "true")

    @property
    def capabilities(self) -> list[str]:
        """Capabilities that its processes may have, such as CAP_SYS_NICE."""
        return self.last("CapabilityBoundingSet").split()

    @property
    def calls(self) -> set[str]:
        """Names of the system calls that it may make: lists add up, a list with ~ takes away."""
        calls: set[str] = set()
        for value in self.values["SystemCallFilter"]:
            names = {name for word in value.strip("~").split() for name in expanded(word)}
            calls = calls - names if value.startswith("~") else calls | names
        return calls


def read_unit(name: str, folder: Path = UNITS) -> Unit:
    """Read a unit. Raises OSError."""
    values: dict[str, list[str]] = {}
    for line in (folder / name).read_text().partition("[Service]")[2].splitlines():
        if match := re.match(r"([A-Z]\w+)=(.*)", line):
            values.setdefault(match[1], []).append(match[2])
    return Unit(folder / name, values)


def expanded(word: str) -> set[str]:
    """System calls of a set, such as @chown; of a system call, itself."""
    if not word.startswith("@"):
        return {word}
    return {name for part in _sets()[word] for name in expanded(part)}


@cache
def _sets() -> dict[str, list[str]]:
    """Sets of system calls and their members, as this systemd has them."""
    sets: dict[str, list[str]] = {}
    members: list[str] = []
    for line in _analyze("syscall-filter").splitlines():
        if line.startswith("@"):
            members = sets.setdefault(line.strip(), [])
        elif line.startswith("    ") and "#" not in line:
            members.append(line.strip())
    return sets


def exposure(name: str, folder: Path = UNITS) -> float:
    """Exposure of a unit, from 0 to 10. Raises MissingError."""
    output = _analyze("security", "--offline=true", str(folder / name))
    match = re.search(r"Overall exposure level for \S+: ([\d.]+)", output)
    if match is None:
        raise MissingError("systemd-analyze tells no exposure", "install systemd 250 or newer")
    return float(match[1])


def _analyze(*words: str) -> str:
    try:
        argv = ["systemd-analyze", "--no-pager", *words]
        return subprocess.run(argv, capture_output=True, text=True, check=False).stdout
    except FileNotFoundError:
        raise MissingError(
            "there is no systemd-analyze", "on Debian: apt-get install systemd"
        ) from None
