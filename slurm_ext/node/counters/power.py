"""Energy that the processors of this node took, by Intel's and AMD's own meter (powercap, RAPL).

It is the whole node's, whoever works there: the source says `rapl/node`.
"""

from __future__ import annotations

import os

from slurm_ext.node.kernel import sysfs
from slurm_ext.node.kernel.readings import CounterGain

POWERCAP = "/sys/class/powercap"
_NAMES = {"package": "node_energy_cpu", "psys": "node_energy_all", "dram": "node_energy_dram"}
_SOURCE = "rapl/node"


class PowerMeter:
    """Adds up joules of all packages since the first look."""

    def __init__(self, kept: dict[str, float], root: str = POWERCAP) -> None:
        self._base = kept
        self._zones = [(zone, CounterGain(wraps_at)) for zone, wraps_at in _zones(root)]

    def sample(self) -> None:
        """Read every meter."""
        for (folder, _), gain in self._zones:
            now = sysfs.number(os.path.join(folder, "energy_uj"))
            gain.see(None if now is None else now * 1e-6)

    def totals(self) -> dict[str, tuple[str, float]]:
        """Joules by counter; a counter that missed a wrap is left out, never too small."""
        sums: dict[str, float] = {}
        broken = set()
        for (_, name), gain in self._zones:
            if gain.total is None or gain.unknown:
                broken.add(name)
            else:
                sums[name] = sums.get(name, self._base.get(name, 0.0)) + gain.total
        return {n: (_SOURCE, joules) for n, joules in sums.items() if n not in broken}


def _zones(root: str) -> list[tuple[tuple[str, str], float | None]]:
    """Folder and counter of each meter, with the joules after which it wraps to zero."""
    zones: dict[str, tuple[tuple[str, str], float | None]] = {}
    for entry in sysfs.listed(root):
        folder = os.path.join(root, entry)
        name = sysfs.text(os.path.join(folder, "name")).partition("-")[0]
        if name in _NAMES and entry.startswith(("intel-rapl:", "amd-rapl:")):
            wraps_at = sysfs.number(os.path.join(folder, "max_energy_range_uj"))
            if sysfs.number(os.path.join(folder, "energy_uj")) is not None:
                joules = wraps_at * 1e-6 if wraps_at else None
                zones[entry] = ((folder, _NAMES[name]), joules)
    return list(zones.values())
