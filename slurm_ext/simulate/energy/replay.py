"""Replays a demand series under the energy policy: which nodes are awake, who waits for a wake.

A slot is ten minutes, which is about what a node takes to wake: nodes woken in a slot draw power in
it and serve from the next, and what jobs lacked meanwhile is counted as short.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from slurm_ext.model.demand.model import SLOT_S
from slurm_ext.policy.energy import (
    EnergyNode,
    EnergyRules,
    NodeDemand,
    PowerState,
    awake_target,
    decide,
)

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class DemandSeries:
    """Nodes needed and nodes there, a slot each, without gaps; `peak`: needed at most, foretold."""

    need: NDArray[np.int64]
    total: NDArray[np.int64]
    peak: Array


@dataclass(slots=True)
class EnergyReplayResult:
    """What a replay came to; node-slots."""

    slots: int = 0
    total: int = 0
    needed: int = 0
    powered: int = 0
    short: int = 0
    wakes: int = 0
    woken: int = 0

    @property
    def utilisation(self) -> float:
        """Percent of powered nodes that jobs use."""
        return 100.0 * (self.needed - self.short) / max(1, self.powered)

    @property
    def utilisation_before(self) -> float:
        """The same with every node powered."""
        return 100.0 * self.needed / max(1, self.total)

    @property
    def wakes_a_day(self) -> float:
        """How often nodes had to be woken for jobs."""
        return self.wakes * 86400.0 / SLOT_S / max(1, self.slots)

    @property
    def short_percent(self) -> float:
        """Percent of all node-slots that jobs lacked."""
        return 100.0 * self.short / max(1, self.total)

    def add(self, *, total: int, needed: int, powered: int, short: int, woken: int | None) -> None:
        """One slot; `woken` is None where nothing had to be woken."""
        self.slots += 1
        self.total += total
        self.needed += needed
        self.powered += powered
        self.short += short
        self.wakes += woken is not None
        self.woken += woken or 0


def replay_energy(series: DemandSeries, rules: EnergyRules) -> EnergyReplayResult:
    """Every node by name, by `decide` as the live loop calls it; all are awake at first."""
    outcome = EnergyReplayResult()
    wakes: list[float] = []
    nodes = [
        EnergyNode(name=f"n{n:05}", power=PowerState.AWAY) for n in range(int(series.total.max()))
    ]
    places = {node.name: at for at, node in enumerate(nodes)}
    for slot, (need, total) in enumerate(zip(series.need, series.total, strict=True)):
        now_s = float(slot * SLOT_S)
        _there(nodes, int(total), now_s)
        served = _serve(nodes, int(need), now_s)
        needs = needs_at(series, slot, rules, tuple(wakes))
        told, steps = decide(nodes, needs, now_s=now_s, rules=rules)
        for step in steps:
            power = PowerState.ASLEEP if step.sleep else PowerState.ON
            at = places[step.node]
            nodes[at] = replace(nodes[at], power=power, since_s=now_s)
        if told.wake and steps:
            wakes.append(now_s)
        outcome.add(
            total=int(total),
            needed=int(need),
            powered=sum(1 for node in nodes if node.power is PowerState.ON),
            short=int(need) - served,
            woken=len(steps) if told.wake and steps else None,
        )
    return outcome


def outline(series: DemandSeries, rules: EnergyRules) -> EnergyReplayResult:
    """The same by numbers of nodes only, much faster: nobody's minimum off time is looked at."""
    outcome = EnergyReplayResult()
    wakes: list[float] = []
    awake = int(series.total[0])
    for slot, (need, total) in enumerate(zip(series.need, series.total, strict=True)):
        now_s = float(slot * SLOT_S)
        before = awake = min(awake, int(total))
        told = awake_target(
            awake, int(total), needs_at(series, slot, rules, tuple(wakes[-8:])), now_s, rules
        )
        awake = told.nodes
        if told.wake and awake > before:
            wakes.append(now_s)
        outcome.add(
            total=int(total),
            needed=int(need),
            powered=awake,
            short=max(0, int(need) - before),
            woken=awake - before if told.wake and awake > before else None,
        )
    return outcome


def needs_at(
    series: DemandSeries, slot: int, rules: EnergyRules, wakes_s: tuple[float, ...] = ()
) -> NodeDemand:
    """What is known in a slot."""
    first = max(0, slot - int(rules.hold_s // SLOT_S))
    return NodeDemand(
        now=int(series.need[slot]),
        past_peak=int(series.need[first : slot + 1].max()),
        peak=float(series.peak[slot]),
        wakes_s=wakes_s,
    )


def _there(nodes: list[EnergyNode], total: int, now_s: float) -> None:
    """Nodes leave and come back as the trace has it; who comes back is awake."""
    for at, node in enumerate(nodes):
        if at >= total and node.power is not PowerState.AWAY:
            nodes[at] = replace(node, power=PowerState.AWAY, busy=False)
        elif at < total and node.power is PowerState.AWAY:
            nodes[at] = replace(node, power=PowerState.ON, busy=False, since_s=now_s)


def _serve(nodes: list[EnergyNode], need: int, now_s: float) -> int:
    """Have as many nodes busy as are needed and awake; who is busy stays so. How many are."""
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
