"""Replays a demand series under the energy policy: which nodes are awake, what waits for a wake.

A slot is ten minutes, which is about what a node takes to wake: nodes woken in a slot draw power in
it and serve from the next, and what jobs lacked meanwhile is counted as short.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from slurm_ext.model.demand.model import SLOT_S
from slurm_ext.policy.energy import (
    EnergyNode,
    EnergyRules,
    NodeDemand,
    PowerState,
    decide,
)

Array = NDArray[np.float64]
SLOTS_A_DAY = 86400.0 / SLOT_S


@dataclass(frozen=True, slots=True)
class DemandSeries:
    """Nodes needed and nodes there, a slot each, without gaps; `peak`: the predicted most."""

    need: NDArray[np.int64]
    total: NDArray[np.int64]
    peak: Array


@dataclass(slots=True)
class EnergyReplayResult:
    """Totals of a replay, in nodes x slots, and the powered nodes of each slot."""

    policy: str = ""
    total: int = 0
    needed: int = 0
    short: int = 0  # needed, and not awake yet
    wakes: int = 0  # slots in which nodes were woken for jobs
    woken: int = 0  # nodes
    powered_by_slot: list[int] = field(default_factory=list)

    @property
    def slots(self) -> int:
        """Slots of the replay."""
        return len(self.powered_by_slot)

    @property
    def powered(self) -> int:
        """Powered nodes x slots."""
        return sum(self.powered_by_slot)

    @property
    def utilisation(self) -> float:
        """Percent of powered nodes that jobs use."""
        return 100.0 * (self.needed - self.short) / max(1, self.powered)

    @property
    def utilisation_before(self) -> float:
        """Percent of all nodes that jobs need."""
        return 100.0 * self.needed / max(1, self.total)

    @property
    def wakes_a_day(self) -> float:
        """Wakes for jobs, on a mean day."""
        return self.wakes * SLOTS_A_DAY / max(1, self.slots)

    @property
    def short_percent(self) -> float:
        """Percent of all node-slots that jobs lacked."""
        return 100.0 * self.short / max(1, self.total)

    def add(self, *, total: int, needed: int, powered: int, short: int, woken: int | None) -> None:
        """Add one slot; `woken` is None where nothing had to be woken."""
        self.total += total
        self.needed += needed
        self.short += short
        self.wakes += woken is not None
        self.woken += woken or 0
        self.powered_by_slot.append(powered)

    def figures(self) -> dict[str, float]:
        """The figures of a row; shares from 0 to 1."""
        slots = max(1, self.slots)
        return {
            "utilisation": self.utilisation / 100.0,
            "powered_mean": self.powered / slots,
            "node_hours_off": (self.total - self.powered) * SLOT_S / 3600.0,
            "wakes_per_day": self.wakes_a_day,
            "woken_per_day": self.woken * SLOTS_A_DAY / slots,
            "short": self.short_percent / 100.0,
        }


def replay_energy(
    series: DemandSeries,
    rules: EnergyRules,
    *,
    name: str = "",
    progress: Callable[[int], None] = lambda _slots: None,
) -> EnergyReplayResult:
    """Replay every node by name, by `decide` as the live loop calls it; all are awake at first."""
    result = EnergyReplayResult(name)
    wakes: list[float] = []
    nodes = [
        EnergyNode(name=f"n{at:05}", power=PowerState.AWAY) for at in range(series.total.max())
    ]
    index = {node.name: at for at, node in enumerate(nodes)}
    for slot, (need, total) in enumerate(zip(series.need, series.total, strict=True)):
        now_s = float(slot * SLOT_S)
        _there(nodes, int(total), now_s)
        served = _serve(nodes, int(need), now_s)
        needs = needs_at(series, slot, rules, tuple(wakes))
        target, changes = decide(nodes, needs, now_s=now_s, rules=rules)
        for change in changes:
            power = PowerState.ASLEEP if change.sleep else PowerState.ON
            at = index[change.node]
            nodes[at] = replace(nodes[at], power=power, since_s=now_s)
        woken = len(changes) if target.wake and changes else None
        if woken is not None:
            wakes.append(now_s)
        powered = sum(1 for node in nodes if node.power is PowerState.ON)
        short = int(need) - served
        result.add(total=int(total), needed=int(need), powered=powered, short=short, woken=woken)
        progress(slot + 1)
    return result


def needs_at(
    series: DemandSeries, slot: int, rules: EnergyRules, wakes_s: tuple[float, ...] = ()
) -> NodeDemand:
    """Needs as they are known in a slot."""
    first = max(0, slot - int(rules.hold_s // SLOT_S))
    return NodeDemand(
        now=int(series.need[slot]),
        past_peak=int(series.need[first : slot + 1].max()),
        peak=float(series.peak[slot]),
        wakes_s=wakes_s,
    )


def _there(nodes: list[EnergyNode], total: int, now_s: float) -> None:
    """Nodes leave and come back as the series has it; one that comes back is awake."""
    for at, node in enumerate(nodes):
        if at >= total and node.power is not PowerState.AWAY:
            nodes[at] = replace(node, power=PowerState.AWAY, busy=False)
        elif at < total and node.power is PowerState.AWAY:
            nodes[at] = replace(node, power=PowerState.ON, busy=False, since_s=now_s)


def _serve(nodes: list[EnergyNode], need: int, now_s: float) -> int:
    """Make as many nodes busy as are needed and awake; busy ones stay so. Returns their number."""
    left = need
    for busy in (True, False):  # those that have work keep it before others get any
        for at, node in enumerate(nodes):
            if node.power is not PowerState.ON or node.busy is not busy:
                continue
            if busy and left <= 0:
                nodes[at] = replace(node, busy=False, since_s=now_s)
            elif left > 0:
                left -= 1
                if not busy:
                    nodes[at] = replace(node, busy=True)
    return need - max(0, left)
