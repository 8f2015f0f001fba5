"""Figures of the elastic benchmark, from the results of its replays."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contrib.bench.elastic.policies import KINDS

OURS, CHECKED = "ours", "Tiresias, re-run"
WINDOW_S = 8 * 3600.0
RULES = {
    "0.5": (OURS,),
    "1.0": (*KINDS, CHECKED),
    "1.5": (OURS,),
    "2.0": (OURS, "ours, length unknown", "tuned batch, short first", "oracle", CHECKED),
}
SEED = ("ours", "throughput, sum", "initial batch, sum", "Tiresias, initial batch")
PUBLISHED = "pollux, published"
CHOSEN_ON = frozenset({"workload-1", "workload-3", "workload-6"})  # these settled two of our terms


@dataclass(frozen=True, slots=True)
class Task:
    """One replay."""

    rule: str
    load: str
    path: Path
    traces: Path


@dataclass(frozen=True, slots=True)
class ReplaySummary:
    """Result of one replay."""

    mean_s: float
    restarts: float
    in_window: int
    jobs: int


def load_figures(
    load: str,
    results: Mapping[Task, ReplaySummary],
    published: Mapping[tuple[str, str, str], float],
) -> dict[str, Any]:
    """By rule and workload, the published ones beside."""
    by: dict[str, dict[str, float]] = {}
    for task, result in results.items():
        if task.load == load and task.rule in RULES[load]:
            by.setdefault(task.rule, {})[task.path.stem] = round(result.mean_s, 1)
    names = sorted({name for result in by.values() for name in result})
    for policy in ("pollux", "tiresias", "optimus"):
        there = {
            name: published[policy, load, name]
            for name in names
            if (policy, load, name) in published
        }
        if there:
            by[f"{policy}, published"] = there
    restarts = {
        r: _mean([o.restarts for t, o in results.items() if (t.load, t.rule) == (load, r)])
        for r in RULES[load]
        if r in by
    }
    out = {
        "mean_s": {rule: _mean(result.values()) for rule, result in by.items()},
        "restarts_a_job": restarts,
        "by_workload_s": by,
    }
    return out | _truth(by)


def _truth(by: Mapping[str, Mapping[str, float]]) -> dict[str, Any]:
    """Deviation of our re-run of Tiresias from the published one, by workload."""
    ours, theirs = by.get(CHECKED, {}), by.get("tiresias, published", {})
    off = [ours[name] / theirs[name] - 1 for name in ours if name in theirs]
    if not off:
        return {}
    return {"tiresias_off": {"mean": round(_mean(off, 4), 4), "worst": max(off, key=abs)}}


def _mean(values: Any, digits: int = 1) -> float:
    numbers = list(values)
    return round(sum(numbers) / len(numbers), digits) if numbers else 0.0


def seed_figures(results: Mapping[Task, ReplaySummary]) -> dict[str, Any]:
    """Jobs that ended in the window, and mean completion of all, at load 2.0."""
    out = {}
    for rule in SEED:
        mine = [
            result for task, result in results.items() if (task.load, task.rule) == ("2.0", rule)
        ]
        if mine:
            out[rule] = {
                "jobs_in_8_h": _mean(result.in_window for result in mine),
                "of": mine[0].jobs,
                "mean_completion_s": _mean(result.mean_s for result in mine),
            }
    return out


def wanted(figures: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Rows against published Pollux, on the workloads that were replayed and are published."""
    rows = []
    for load in ("1.0", "2.0"):
        by = figures.get(load, {}).get("by_workload_s", {})
        ours, theirs = by.get(OURS, {}), by.get(PUBLISHED, {})
        both = ours.keys() & theirs.keys()
        for names, which in ((both, ""), (both - CHOSEN_ON, " on which nothing was chosen")):
            if names:
                what = f"{OURS}: mean completion (s), {load}x, of {len(names)} workloads{which}"
                most, got = (_mean(means[name] for name in names) for means in (theirs, ours))
                rows.append(_row(f"{what}, at most published Pollux's", most, got))
    return rows


def _row(what: str, target: float, got: float) -> dict[str, Any]:
    return {"what": what, "target": target, "got": got, "met": got <= target}
