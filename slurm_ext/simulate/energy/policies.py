"""Energy policies that a demand series can be replayed under.

| name        | which nodes are off                                                              |
|-------------|----------------------------------------------------------------------------------|
| ours        | those that `dlqueue control --energy` puts to sleep, with its learned forecast   |
| persistence | the same with the simplest forecast: as much as now, and what the past added     |
| vanilla     | those that were idle for SuspendTime, as Slurm alone does it; woken when needed   |
| always-on   | none                                                                             |
"""

from collections.abc import Callable
from math import ceil

import numpy as np

from slurm_ext.core.errors import UsageError
from slurm_ext.model.demand.model import SLOT_S, DemandPredictor, features, persistence_of
from slurm_ext.policy.energy import EnergyRules
from slurm_ext.simulate.energy.demand_file import DemandRecord
from slurm_ext.simulate.energy.replay import DemandSeries, EnergyReplayResult, replay_energy

POLICIES = ("ours", "persistence", "vanilla", "always-on")
USUAL = "always-on,vanilla,ours"
SUSPEND_S = 600.0


def policies_of(text: str) -> list[str]:
    """Names of a comma-separated list, each once. Raises UsageError."""
    names = [name.strip() for name in text.split(",")]
    unknown = [name for name in names if name not in POLICIES]
    if unknown:
        raise UsageError(f"--policy {unknown[0]!r}: expected {', '.join(POLICIES)} with --energy")
    if len(set(names)) < len(names):
        raise UsageError(f"--policy {text!r} names one policy twice")
    return names


def replay_policy(
    name: str,
    record: DemandRecord,
    split: int,
    predictor: DemandPredictor,
    *,
    suspend_s: float = SUSPEND_S,
    progress: Callable[[int], None] = lambda _slots: None,
) -> EnergyReplayResult:
    """Replay the slots from `split` on; `predictor` is what ours learned from those before."""
    rules = EnergyRules()
    if name == "ours":
        series = series_of(record, split, predictor, rules)
        return replay_energy(series, rules, name=name, progress=progress)
    if name == "persistence":
        series = series_of(record, split, persistence_of(record.need[:split]), rules)
        return replay_energy(series, rules, name=name, progress=progress)
    slots = ceil(suspend_s / SLOT_S) if name == "vanilla" else None
    result = idle_for(record, split, slots)
    result.policy = name
    progress(result.slots)
    return result


def series_of(
    record: DemandRecord, split: int, predictor: DemandPredictor, rules: EnergyRules
) -> DemandSeries:
    """Demand from `split` on, with the predicted bound of the next hours."""
    rows = features(record.need, record.first_slot)[split:]
    need, total = (column[split:].astype(np.int64) for column in (record.need, record.total))
    return DemandSeries(need, total, need + predictor.peak(rows, rules.level))


def idle_for(record: DemandRecord, split: int, slots: int | None) -> EnergyReplayResult:
    """Replay with nodes off once they were idle for so many slots; None: no node is ever off.

    All are awake at first, and so is a node that comes back.
    """
    result = EnergyReplayResult()
    need, total = (column[split:].astype(int).tolist() for column in (record.need, record.total))
    awake = was_there = total[0]
    for slot, (needed, there) in enumerate(zip(need, total, strict=True)):
        before = min(there, awake + max(0, there - was_there))
        if slots is None or slot < slots:
            awake = there
        else:
            awake = min(there, max(need[slot - slots : slot + 1]))
        woken = awake - before if needed > before else None
        short = max(0, needed - before)
        result.add(total=there, needed=needed, powered=awake, short=short, woken=woken)
        was_there = there
    return result
