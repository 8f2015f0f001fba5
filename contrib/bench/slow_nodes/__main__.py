"""Slow nodes found from jobs' own rates, and false alarms, beside a threshold on plain means.

    python -m contrib.bench.slow_nodes --data DATA [--json] [--quick]

`DATA` has throughput/ (the noise of a run) and duration/ (the log that is replayed). In each trial
one node of a stream becomes 15 % slower at a random moment; counted are the jobs that ended on it
until it is blamed, and the healthy nodes that are blamed in all node-days. One user who lies about
one node in all of his records must blame nobody. Ranks: a job's windows with a straggler that
stays or moves, and how many are classified right.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from contrib.bench.common.arrays import Array
from contrib.bench.common.program import Result, at_least, at_most, options, run
from contrib.bench.slow_nodes import detectors
from contrib.bench.slow_nodes.rank_windows import ranks_right
from contrib.bench.slow_nodes.records import (
    DAY_S,
    Injected,
    made_up,
    on_nodes,
    published_noise,
    replayed,
)
from slurm_ext.model.node_speed.residuals import UnitRun

SLOWER = 0.15
NODES = 32
DETECTORS = {"ours": detectors.ours, "mean_per_node": detectors.mean_per_node}
STREAMS = ("made_up", "replayed")
TARGET_JOBS, TARGET_SHARE = 20, 0.9
Jobs = Sequence[tuple[float, str, str]]


def result(args: argparse.Namespace) -> Result:
    """Everything measured. Raises InputError."""
    noise = published_noise(args.data / "throughput")
    trials = 4 if args.quick else 40
    figures: dict[str, Any] = {
        "noise": {"sd": float(noise.std()), "p90": float(np.quantile(np.abs(noise), 0.9))},
        "trials": trials,
        "quick": args.quick,
        "ranks": ranks_right(np.random.default_rng(7), noise, 100 if args.quick else 1000),
        "lying_user": _lied(noise),
    }
    for stream in STREAMS:
        figures[stream] = _stream(stream, args.data, noise, trials)
    return {"bench": "slow_nodes", "figures": figures, "wanted": _wanted(figures)}


def _stream(stream: str, data: Path, noise: Array, trials: int) -> dict[str, Any]:
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in DETECTORS}
    for seed in range(trials):
        dice = np.random.default_rng(seed)
        jobs = _jobs(stream, data, dice)
        injected = _injection(dice, jobs)
        runs = on_nodes(dice, jobs, noise, NODES, [injected])
        for name, detect in DETECTORS.items():
            found[name].append(_judged(runs, detect(runs), injected))
    return {name: _pooled(each) for name, each in found.items()}


def _jobs(stream: str, data: Path, dice: np.random.Generator) -> Jobs:
    if stream == "replayed":
        return replayed(data / "duration")
    return made_up(dice, nodes=NODES, days=60, a_day=6, users=12)


def _injection(dice: np.random.Generator, jobs: Jobs) -> Injected:
    """Some node, between a third and two thirds of the time."""
    first, last = jobs[0][0], jobs[-1][0]
    at_s = float(first + dice.uniform(1 / 3, 2 / 3) * (last - first))
    return Injected(f"n{dice.integers(NODES)}", at_s, SLOWER)


def _judged(
    runs: Sequence[UnitRun], alarms: Sequence[detectors.Alarm], injected: Injected
) -> dict[str, Any]:
    right = [one.at_s for one in alarms if _is_right(one, injected)]
    after = [one for one in runs if one.unit == injected.node and one.at_s >= injected.from_s]
    jobs = sum(one.at_s <= min(right) for one in after) if right else None
    return {
        "jobs": jobs,
        "jobs_left": len(after),
        "false": sum(not _is_right(one, injected) for one in alarms),
        "node_days": NODES * (runs[-1].at_s - runs[0].at_s) / DAY_S,
    }


def _is_right(alarm: detectors.Alarm, injected: Injected) -> bool:
    return alarm.node == injected.node and alarm.at_s >= injected.from_s


def _pooled(trials: Sequence[dict[str, Any]]) -> dict[str, Any]:
    jobs = [one["jobs"] for one in trials]
    days = sum(one["node_days"] for one in trials)
    false = sum(one["false"] for one in trials)
    seen = sorted(inf if one is None else one for one in jobs)
    return {
        "found_in_20": sum(one <= TARGET_JOBS for one in seen) / len(seen),
        "never": sum(one is None for one in jobs),
        "median_jobs": _finite(seen[len(seen) // 2]),
        "p90_jobs": _finite(seen[int(0.9 * (len(seen) - 1))]),
        "false_alarms": false,
        "node_days": days,
        "false_per_1000_node_days": 1000 * false / days,
    }


inf = float("inf")


def _finite(value: float) -> float | None:
    return None if value == inf else value


def _lied(noise: Array) -> dict[str, int]:
    """Alarms on a healthy node that one busy user calls 30 % slower in each of his records."""
    blamed = {}
    for name, detect in DETECTORS.items():
        dice = np.random.default_rng(99)
        jobs = made_up(dice, nodes=NODES, days=60, a_day=6, users=12)
        runs = [
            UnitRun(r.at_s, r.unit, r.training, r.user, r.log_rate - 0.3)
            if (r.unit, r.user) == ("n3", "u0")
            else r
            for r in on_nodes(dice, jobs, noise, NODES)
        ]
        blamed[name] = sum(one.node == "n3" for one in detect(runs))
    return blamed


def _wanted(figures: dict[str, Any]) -> list[Result]:
    rows = []
    for stream in STREAMS:
        mine = figures[stream]["ours"]
        rows += [
            at_least(
                f"{stream}: slow nodes found in {TARGET_JOBS} jobs, share of trials",
                TARGET_SHARE,
                mine["found_in_20"],
            ),
            at_most(
                f"{stream}: false alarms in 1,000 node-days", 1.0, mine["false_per_1000_node_days"]
            ),
        ]
    rows.append(at_most("alarms that one lying user causes", 0, figures["lying_user"]["ours"]))
    rows.append(at_least("kinds of stragglers told right", 11 / 12, figures["ranks"]["right"]))
    return rows


def main() -> None:
    """Measure and print; 1 where a table cannot be used."""
    parser = options(__doc__, quick="four trials a stream")
    parser.add_argument("--data", type=Path, required=True, help="folder of published tables")
    run(parser, result, _print)


def _print(measured: Result) -> None:
    figures = measured["figures"]
    print(f"noise of a run: sd {figures['noise']['sd']:.3f}, p90 {figures['noise']['p90']:.3f}")
    for stream in STREAMS:
        for name, one in figures[stream].items():
            print(
                f"{stream:9} {name:14} found in 20 jobs {one['found_in_20']:.2f}, median"
                f" {one['median_jobs']}, p90 {one['p90_jobs']}, never {one['never']}; false alarms"
                f" {one['false_alarms']} in {one['node_days']:.0f} node-days"
            )
    print("ranks:", figures["ranks"], " lying user:", figures["lying_user"])


if __name__ == "__main__":
    main()
