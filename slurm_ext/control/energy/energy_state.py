"""Memory of the energy loop: since when nodes sleep or idle, and past wakes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from slurm_ext.control.energy.nodes import is_busy, power_of
from slurm_ext.control.energy.series import OpenSlot
from slurm_ext.policy.energy import DAY_S, PowerState
from slurm_ext.slurm.records import NodeInfo


@dataclass(slots=True)
class EnergyState:
    """All that the next process has to know, be it a round by a timer. Times are Unix seconds."""

    asleep: dict[str, float] = field(default_factory=dict)  # by node: since when
    idle: dict[str, float] = field(default_factory=dict)
    ours: set[str] = field(default_factory=set)  # nodes that we put to sleep
    wakes: dict[str, list[float]] = field(default_factory=dict)  # by pool: when
    # By pool whose jobs lacked nodes when last looked: what was needed.
    lacking: dict[str, int] = field(default_factory=dict)

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> "EnergyState":
        """Read what `as_json` wrote; what it lacks is empty."""
        return cls(
            asleep=dict(kept.get("asleep", {})),
            idle=dict(kept.get("idle", {})),
            ours=set(kept.get("ours", ())),
            wakes={pool: list(times) for pool, times in kept.get("wakes", {}).items()},
            lacking=dict(kept.get("lacking", {})),
        )

    def as_json(self, running: Mapping[str, OpenSlot]) -> dict[str, Any]:
        """Also each pool's slot that has not ended."""
        return {
            "asleep": self.asleep,
            "idle": self.idle,
            "ours": sorted(self.ours),
            "wakes": self.wakes,
            "lacking": self.lacking,
            "running": dict(running),
        }

    def notice(self, nodes: Sequence[NodeInfo], now_s: float) -> None:
        """Note since when nodes sleep or are idle."""
        asleep = {node.name for node in nodes if power_of(node) is PowerState.ASLEEP}
        idle = {node.name for node in nodes if not is_busy(node)} - asleep
        self.idle = {name: self.idle.get(name, now_s) for name in idle}
        self.asleep = {name: self.asleep.get(name, now_s) for name in sorted(asleep)}
        self.ours -= {node.name for node in nodes if power_of(node) is PowerState.WAKING}

    def wakes_before(self, pool: str, need: int, awake: int, now_s: float) -> tuple[float, ...]:
        """Of the last day; the one for a lack that still lasts is not before."""
        times = self.wakes.get(pool, [])
        lasts = awake < need <= self.lacking.get(pool, -1)
        times = times[:-1] if lasts else times
        return tuple(time_s for time_s in times if now_s - time_s < DAY_S)

    def note_wake(self, pool: str, need: int, now_s: float, *, wakes: bool) -> None:
        """A lack of nodes is one wake for as long as it lasts, and another where it grows."""
        if not wakes:
            self.lacking.pop(pool, None)
        elif need > self.lacking.get(pool, -1):
            self.lacking[pool] = need
            recent = [at for at in self.wakes.get(pool, ()) if now_s - at < DAY_S]
            self.wakes[pool] = [*recent, now_s]
