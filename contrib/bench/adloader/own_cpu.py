"""CPU seconds that dlqueue itself costs: its daemons and hooks, below a sandbox's supervisor."""

import os
from collections import defaultdict
from contextlib import suppress
from pathlib import Path

from slurm_ext.sandbox.processes import descendants

TICK_S = 1 / os.sysconf("SC_CLK_TCK")
OURS = b"slurm_ext"
NAMES = {b"control": "control", b"serve": "advisor"}  # by the command; the rest are hooks


class OwnCpu:
    """Keeps the last count of each process, since a process that has ended counts nothing.

    A hook that lives for less than the time between two looks is missed; the sampler is not.
    """

    def __init__(self, supervisor: int) -> None:
        self.supervisor = supervisor
        self.first: dict[tuple[int, int], float] = {}
        self.last: dict[tuple[int, int], float] = {}
        self.names: dict[tuple[int, int], str] = {}
        self.look(begin=True)

    def look(self, *, begin: bool = False) -> None:
        """Read every process; what one has used by `begin` is not counted."""
        for pid in descendants(self.supervisor):
            with suppress(OSError, IndexError, ValueError):
                argv = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                if any(OURS in word for word in argv):
                    started, used_s = _times(pid)
                    key = (pid, started)
                    self.names[key] = next((NAMES[w] for w in argv if w in NAMES), "hooks")
                    self.first.setdefault(key, used_s if begin else 0.0)
                    self.last[key] = used_s

    def seconds(self) -> dict[str, float]:
        """CPU seconds since the first look, by name."""
        self.look()
        sums: defaultdict[str, float] = defaultdict(float)
        for key, used_s in self.last.items():
            sums[self.names[key]] += used_s - self.first[key]
        return {name: round(used_s, 2) for name, used_s in sorted(sums.items())}


def _times(pid: int) -> tuple[int, float]:
    """Start in clock ticks, CPU seconds of the process and of the children it has collected."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return int(fields[19]), sum(map(int, fields[11:15])) * TICK_S
