"""The published wake and sleep rule (CES, Hu et al., SC '21), and forecasts to compare ours with.

    h past slots, f slots ahead; nodes sleep if demand falls, past and predicted by th_h and th_f

The published features of slots more than three hours ahead use demand that is not known by then;
here the furthest known value takes its place.
"""

from dataclasses import dataclass

import numpy as np

from contrib.bench.common.arrays import Array
from slurm_ext.model.demand.model import SLOT_S
from slurm_ext.policy.energy import EnergyRules, awake_target
from slurm_ext.simulate.energy.replay import DemandSeries, EnergyReplayResult, needs_at

AHEAD = 18  # slots


@dataclass(frozen=True, slots=True)
class Ces:
    """The published parameters of one cluster, in slots and nodes."""

    h: int
    f: int
    th_h: float
    th_f: float
    th_d: int
    buffer: int
    keep: int


PUBLISHED = {"philly": Ces(2, 30, 0.1, 0, 1, 20, 10), "venus": Ces(3, 18, 0.5, 1, 2, 5, 12)}


def ces(
    series: DemandSeries, rule: Ces, predicted: Array, *, perfect: bool = False
) -> EnergyReplayResult:
    """Replay the published rule; `predicted` has for every slot the demand AHEAD slots later.

    All nodes are awake at first.
    """
    outcome, awake, stable = EnergyReplayResult(), int(series.total[0]), 0
    need = series.need.astype(np.float64)
    for slot, total in enumerate(series.total):
        before = awake = min(awake, int(total))
        woken = None
        if awake < need[slot]:
            awake, stable = int(min(total, need[slot] + rule.buffer)), slot + rule.keep
            woken = awake - before or None
        near, far = (
            _ahead(need, predicted, slot, rule.f * times, perfect=perfect) for times in (1, 2)
        )
        past = need[max(0, slot - rule.h) : slot]
        falls = len(past) > 0 and past.mean() - need[slot] >= rule.th_h
        if falls and need[slot] - near >= rule.th_f and slot >= stable:
            stable, wanted = slot, int(min(awake, need[slot] + rule.buffer))
            if near >= far and awake - wanted >= rule.th_d:
                awake = wanted
        short = max(0, int(need[slot]) - before)
        needed = int(need[slot])
        outcome.add(total=int(total), needed=needed, powered=awake, short=short, woken=woken)
    return outcome


def _ahead(need: Array, predicted: Array, slot: int, count: int, *, perfect: bool) -> float:
    """Mean demand of the next slots, as predicted AHEAD slots before each."""
    if perfect:
        return float(need[slot : slot + count].mean())
    made = np.minimum(np.arange(slot, slot + count) - AHEAD, slot)
    return float(predicted[np.maximum(made, 0)].mean())


def outline(series: DemandSeries, rules: EnergyRules) -> EnergyReplayResult:
    """Replay ours by numbers of nodes only, much faster: no minimum off time is kept."""
    result = EnergyReplayResult()
    wakes: list[float] = []
    awake = int(series.total[0])
    for slot, (need, total) in enumerate(zip(series.need, series.total, strict=True)):
        now_s = float(slot * SLOT_S)
        before = awake = min(awake, int(total))
        target = awake_target(
            awake, int(total), needs_at(series, slot, rules, tuple(wakes[-8:])), now_s, rules
        )
        awake = target.nodes
        if target.wake and awake > before:
            wakes.append(now_s)
        result.add(
            total=int(total),
            needed=int(need),
            powered=awake,
            short=max(0, int(need) - before),
            woken=awake - before if target.wake and awake > before else None,
        )
    return result
