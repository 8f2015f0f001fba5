"""Which nodes sleep, and which are woken: cluster energy saving (CES, Hu et al., SC '21). Pure.

Idle nodes sleep where neither the past hours nor the bound of the next ones needs them, a buffer
apart; nodes are woken when jobs need more than are awake, with some to spare, so that one wake
serves a whole rise. What the published rule lacks: a bound instead of a mean forecast, the past
peak, more to spare the more wakes there were in the last day, and nodes with names: a node that is
busy, reserved or kept never sleeps, and one that went to sleep stays asleep for a while.

A node that a waiting job needs is always woken; the buffer's are not before `min_off_s`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import ceil

DAY_S = 86400.0
MOST_WAKES_COUNTED = 4


class PowerState(StrEnum):
    """State of a node's power."""

    ON = "on"
    WAKING = "waking"
    FALLING = "falling asleep"
    ASLEEP = "asleep"
    AWAY = "away"  # down, or not ours: it is neither counted nor touched


@dataclass(frozen=True, slots=True, kw_only=True)
class EnergyNode:
    """One node as it is now."""

    name: str
    power: PowerState
    busy: bool = False  # jobs have any part of it
    set_apart: bool = False  # by a reservation, now: only its jobs may have the node
    kept: str = ""  # why it must not sleep (a reservation, an administrator); empty: it may
    since_s: float = 0.0  # when it went to sleep, or was last busy
    due: str = ""  # why it is woken whatever is needed (a reservation begins); empty: it is not


@dataclass(frozen=True, slots=True, kw_only=True)
class EnergyRules:
    """Shares are of the nodes that are there.

    Chosen on three windows of Philly's demand and three of Venus's, all in their development part.
    """

    buffer: float = 0.03  # nodes kept awake beyond what is needed
    spare: float = 0.04  # nodes woken beyond what is needed
    least: float = 0.04  # fewer nodes are not worth a change
    settle_s: float = 21600.0  # after a wake nothing sleeps
    hold_s: float = 10800.0  # demand of so long ago still counts
    level: float = 0.8  # odds with which the bound of demand holds
    min_off_s: float = 3600.0
    min_idle_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDemand:
    """Nodes that jobs need: now (running and waiting), in the past, and at most to come."""

    now: int
    past_peak: int = 0  # the highest within rules.hold_s
    peak: float = 0.0  # not to be exceeded in the next hours, at rules.level
    wakes_s: tuple[float, ...] = ()  # when nodes had to be woken for jobs, this time excepted


@dataclass(frozen=True, slots=True, kw_only=True)
class AwakeTarget:
    """Number of nodes to have awake, and the reason."""

    nodes: int
    wake: bool  # jobs need more than are awake
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerChange:
    """One node to put to sleep or to wake, and the reason."""

    node: str
    sleep: bool  # False: it is woken
    reason: str


def awake_target(
    awake: int, total: int, needs: NodeDemand, now_s: float, rules: EnergyRules
) -> AwakeTarget:
    """The number of nodes to have awake, of `total`; `awake` are now (those waking included)."""
    recent = sum(1 for wake_s in needs.wakes_s if now_s - wake_s < DAY_S)
    if needs.now > awake:
        spare = ceil(rules.spare * total) * (1 + min(recent, MOST_WAKES_COUNTED))
        nodes = min(total, max(needs.now + spare, ceil(needs.peak)))
        more = f"{needs.now} nodes needed, {awake} awake, {nodes - needs.now} more to spare"
        return AwakeTarget(nodes=nodes, wake=True, reason=more)
    if needs.wakes_s and now_s - max(needs.wakes_s) < rules.settle_s:
        return AwakeTarget(nodes=awake, wake=False, reason="nodes were woken for jobs not long ago")
    floor = max(needs.now + ceil(rules.buffer * total), needs.past_peak, ceil(needs.peak))
    floor = min(total, floor)
    if awake - floor < max(1, ceil(rules.least * total)):
        reason = f"{awake} nodes awake, {floor} to be ready for: too few to spare"
        return AwakeTarget(nodes=awake, wake=False, reason=reason)
    reason = f"{needs.now} nodes needed now, at most {floor} in the next hours, {awake} awake"
    return AwakeTarget(nodes=floor, wake=False, reason=reason)


def decide(
    nodes: Sequence[EnergyNode], needs: NodeDemand, *, now_s: float, rules: EnergyRules
) -> tuple[AwakeTarget, tuple[PowerChange, ...]]:
    """Decide which nodes sleep and wake now; `needs.now` counts nodes that any job may have."""
    there = for_jobs(nodes)
    awake = awake_of(there)
    target = awake_target(awake, len(there), needs, now_s, rules)
    due = tuple(
        PowerChange(node=node.name, sleep=False, reason=node.due)
        for node in nodes
        if node.due and node.power is PowerState.ASLEEP
    )
    return target, due + _steps(there, target, awake, needs, now_s, rules)


def _steps(
    there: Sequence[EnergyNode],
    target: AwakeTarget,
    awake: int,
    needs: NodeDemand,
    now_s: float,
    rules: EnergyRules,
) -> tuple[PowerChange, ...]:
    if target.nodes < awake:
        chosen = _sleepers(there, now_s, rules)[: awake - target.nodes]
        return tuple(
            PowerChange(node=node.name, sleep=True, reason=target.reason) for node in chosen
        )
    if not target.wake:
        return ()
    coming = sum(1 for node in there if node.power is PowerState.WAKING and not _ready(node))
    chosen = _wakers(there, now_s, rules, at_once=needs.now - awake - coming)
    count = max(0, target.nodes - awake - coming)
    return tuple(
        PowerChange(node=node.name, sleep=False, reason=target.reason) for node in chosen[:count]
    )


def for_jobs(nodes: Sequence[EnergyNode]) -> list[EnergyNode]:
    """Nodes that count: idle ones of a reservation are no buffer for the jobs of others."""
    there = (node for node in nodes if node.power is not PowerState.AWAY)
    return [node for node in there if node.busy or not node.set_apart]


def awake_of(nodes: Sequence[EnergyNode]) -> int:
    """Number of nodes, of those for jobs, that have jobs or are ready for one."""
    return sum(1 for node in for_jobs(nodes) if _ready(node))


def _ready(node: EnergyNode) -> bool:
    """True if the node can take a job; one that Slurm is waking for a job belongs to that job."""
    return node.power is PowerState.ON or (node.power is PowerState.WAKING and not node.busy)


def _sleepers(nodes: Sequence[EnergyNode], now_s: float, rules: EnergyRules) -> list[EnergyNode]:
    """Those that may sleep, the longest idle first."""
    free = [
        node
        for node in nodes
        if node.power is PowerState.ON
        and not node.busy
        and not node.kept
        and now_s - node.since_s >= rules.min_idle_s
    ]
    return sorted(free, key=lambda node: (node.since_s, node.name))


def _wakers(
    nodes: Sequence[EnergyNode], now_s: float, rules: EnergyRules, *, at_once: int
) -> list[EnergyNode]:
    """Those to wake, the longest asleep first; `at_once` of them however short they slept."""
    asleep = sorted(
        (
            node
            for node in nodes
            if node.power is PowerState.ASLEEP and not node.kept and not node.due
        ),
        key=lambda node: (node.since_s, node.name),
    )
    rested = [node for node in asleep if now_s - node.since_s >= rules.min_off_s]
    missing = max(0, at_once - len(rested))
    return rested + asleep[len(rested) : len(rested) + missing]
