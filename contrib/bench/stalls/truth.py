"""Injected stalls by the program's own clock, and how far the record's split is from them."""

from collections.abc import Mapping, Sequence
from statistics import fmean, median_low
from typing import Any

from contrib.bench.stalls.configurations import Injected
from contrib.bench.stalls.runs import Ran
from slurm_ext.core.stalls.step_split import PARTS, step_split

LARGE = 0.1  # of the step: a stall from here on is held to its own size
COLD = 2  # first steps: connections are made, buckets are not torch's final ones
STALLS = tuple(part for part in PARTS if part not in ("computing", "crowded", "other"))
_Clock = Mapping[str, Any]


def true_parts(injected: Injected, clocks: Sequence[_Clock]) -> dict[str, float]:
    """Seconds of a step, part by part, at the rank in the middle by its pace."""
    paces = [fmean(clock["wait_s"]) + _computing(clock, injected) for clock in clocks]
    clock = clocks[paces.index(median_low(paces))]
    steps = len(clock["step_s"])
    worked_s = clock["worked"][1]
    firsts = [clock["wait_s"][place] for place in clock["first"]]
    starting = sum(max(0.0, one - worked_s) for one in firsts) / steps if injected.workers else 0.0
    link = _link(injected, clocks)
    exposed = fmean(clock["exposed_s"][COLD:]) if link else 0.0
    return {
        "computing": _computing(clock, injected),
        "communicating": link,
        "slow_rank": max(0.0, exposed - link),
        **_data(injected, clock),
        "starting": starting,
    }


def _synchronises(injected: Injected) -> bool:
    return injected.ranks > 1 and injected.mbit > 0


def _computing(clock: _Clock, injected: Injected) -> float:
    exposed = fmean(clock["exposed_s"]) if _synchronises(injected) else 0.0
    return fmean(clock["step_s"]) - exposed


def _link(injected: Injected, clocks: Sequence[_Clock]) -> float:
    """Mean wait of the rank that came last, step by step."""
    if not _synchronises(injected):
        return 0.0
    each = zip(*(clock["exposed_s"][COLD:] for clock in clocks), strict=False)
    return fmean([min(waits) for waits in each])


def _data(injected: Injected, clock: _Clock) -> dict[str, float]:
    """Waits that injected costs make, in Stash's order; at home nothing hides them."""
    _, wall_s, cpu_s, asleep_s = clock["worked"]
    step_s = fmean(clock["step_s"])

    def stall(seconds: float) -> float:
        if injected.workers == 0:
            return seconds
        return max(0.0, seconds / injected.workers - step_s)

    whole, without_sleep, spinning = stall(wall_s), stall(wall_s - asleep_s), stall(cpu_s)
    return {
        "fetch": whole - without_sleep,
        "preparation": spinning,
        "cores": without_sleep - spinning,
    }


def compared(injected: Injected, run: Ran) -> dict[str, Any]:
    """Errors of the record's split: of large stalls by their size, of small ones by the step."""
    true, split = true_parts(injected, run.clocks), step_split(run.summaries)
    if split is None:
        raise ValueError("the record has no split")
    clock_s = fmean([fmean(one["wait_s"]) + fmean(one["step_s"]) for one in run.clocks])
    large = {part: true[part] for part in STALLS if true[part] >= LARGE * clock_s}
    missed = {part: abs(split.parts[part] - true[part]) for part in STALLS}
    return {
        "step_s": round(clock_s, 5),
        "true": {part: round(seconds, 5) for part, seconds in true.items()},
        "record": {part: round(seconds, 5) for part, seconds in split.parts.items()},
        "large_error": max([missed[part] / large[part] for part in large], default=0.0),
        "small_error": max([missed[part] / clock_s for part in STALLS if part not in large]),
        "sum_error": abs(split.step_s - clock_s) / clock_s,
        "au": split.au,
        "au_error": abs(split.au - _au(injected, run.clocks, true)),
        "wall_s": round(run.wall_s, 2),
    }


def _au(injected: Injected, clocks: Sequence[_Clock], true: Mapping[str, float]) -> float:
    """Accelerator utilisation by the own clock: the first batch of a pass is left out."""
    paces = [fmean(clock["wait_s"]) + _computing(clock, injected) for clock in clocks]
    clock = clocks[paces.index(median_low(paces))]
    firsts = set(clock["first"])
    waits = sum(one for place, one in enumerate(clock["wait_s"]) if place not in firsts)
    steps_s = sum(clock["step_s"])
    busy_s = steps_s - true["slow_rank"] * len(clock["step_s"])
    return float(busy_s / (steps_s + waits))
