"""`dlqueue control --energy`: which nodes sleep, and which are woken."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from slurm_ext.control.energy.energy_loop import EnergyLoop
    from slurm_ext.control.loops.loop_memory import LoopFolder
    from slurm_ext.core.settings.document import Settings
    from slurm_ext.slurm import SlurmClient


def make(settings: "Settings", client: "SlurmClient", folder: "LoopFolder") -> "EnergyLoop":
    """The loop under these settings. Raises InputError where what it kept cannot be used."""
    from slurm_ext.control.energy.energy_loop import EnergyLoop

    return EnergyLoop(settings, client, folder)


def details(status: Mapping[str, Any]) -> Iterator[str]:
    """A line a pool, for people."""
    seen = status["details"]
    if seen["hindered"]:
        yield f"nothing is done: {seen['hindered']}"
    for pool, told in seen["pools"].items():
        counts = ", ".join(f"{count} {power}" for power, count in told["nodes"].items() if count)
        name = "all nodes" if pool == "*" else f"partition {pool}"
        yield f"{name}: {counts}; {told['needed']} needed, at most {told['peak']} ({told['by']})"
        yield f"  {told['reason']}"
