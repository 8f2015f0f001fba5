"""Trainings with injected stalls; their record's split against the program's own clock.

Twelve configurations: sleeping samples (storage), spinning ones (preparation), workers on one core,
slow starts of workers, two ranks over a link of 400 to 1,600 Mbit/s (network namespaces, token
bucket; needs root), a slow rank, and combinations. The truth is injected: workers and ranks keep
their own clocks, step by step, which the probe does not see. Seed 0 has the costs as they stand in
configurations.py, others draw each cost up to 20 % away.

`--windows` also runs each in windows, as `dlqueue profile` does: its data stall and communication.
`--separate` also runs Stash's separate runs (arXiv 2208.14344): one rank with synthetic data, all
ranks with synthetic data, with samples that only spin; differences are its stalls. Figures need a
quiet machine.
"""

import argparse
import sys
from dataclasses import replace
from statistics import fmean
from typing import Any

from contrib.bench.common.program import Result, at_least, at_most, options, run
from contrib.bench.stalls.configurations import CONFIGURATIONS, Injected
from contrib.bench.stalls.runs import Ran, ran
from contrib.bench.stalls.truth import compared
from contrib.bench.stalls.windows import in_windows, line

STEPS, QUICK_STEPS = 150, 60
QUICK = ("healthy", "fetch", "cores", "slow_rank", "link")


def figures(
    injected: Injected, steps: int, *, separate: bool = False, windows: bool = False
) -> dict[str, Any]:
    """One drawn configuration: errors of the record, and other ways' answers beside them."""
    whole = ran(injected, steps)
    found = compared(injected, whole)
    if windows:
        found["in_windows"] = in_windows(injected, whole.clocks)
    return {**found, "stash": _stash(injected, steps, whole)} if separate else found


def _stash(injected: Injected, steps: int, whole: Ran) -> dict[str, float]:
    """Stalls as differences of separate runs, and how long they take together."""
    synthetic = replace(injected, sleep_s=0.0, spin_s=0.0, init_s=0.0, batches=0, one_core=False)
    alone = ran(replace(synthetic, ranks=1, mbit=0.0, slow_s=0.0), steps)
    together = ran(synthetic, steps) if injected.ranks > 1 else alone
    prepared = ran(replace(injected, sleep_s=0.0), steps)
    walls = [_step_s(one) for one in (alone, together, prepared, whole)]
    return {
        "network_s": walls[1] - walls[0],
        "preparation_s": max(0.0, walls[2] - walls[1]),
        "fetch_s": walls[3] - walls[2],
        "wall_s": sum(one.wall_s for one in {id(r): r for r in (alone, together)}.values())
        + prepared.wall_s
        + whole.wall_s,
    }


def _step_s(one: Ran) -> float:
    return fmean([fmean(clock["wait_s"]) + fmean(clock["step_s"]) for clock in one.clocks])


def result(args: argparse.Namespace) -> Result:
    """All configurations and seeds, and what is wanted of them."""
    names = args.only or (QUICK if args.quick else list(CONFIGURATIONS))
    steps = args.steps or (QUICK_STEPS if args.quick else STEPS)
    seeds = args.seeds or (1 if args.quick else 10)
    every: dict[str, list[dict[str, Any]]] = {}
    for name in names:
        for seed in range(seeds):
            drawn = CONFIGURATIONS[name].drawn(seed)
            one = figures(drawn, steps, separate=args.separate, windows=args.windows)
            every.setdefault(name, []).append(one)
            print(_line(name, one), file=sys.stderr)
            if args.windows:
                print(line(name, one["in_windows"]), file=sys.stderr)
    return {"bench": "stalls", "figures": every, "wanted": wanted(every)}


def wanted(every: dict[str, list[dict[str, Any]]]) -> list[Result]:
    """The issue's targets, worst run first."""
    rows = [
        _worst("error of stalls of >= 10 % of the step, of themselves", every, "large_error", 0.05),
        _worst("error of smaller stalls, of the step", every, "small_error", 0.01),
        _worst("parts' sum against the own clock's step", every, "sum_error", 0.03),
        _worst("error of AU, of 1", every, "au_error", 0.01),
    ]
    split = [one["in_windows"] for ones in every.values() for one in ones if "in_windows" in one]
    told = {"all": [one for one in split if "why_not" not in one]}
    if told["all"]:
        rows.append(
            _worst("windows: error of large stalls, of themselves", told, "large_error", 0.05)
        )
        rows.append(
            _worst("windows: error of smaller ones, of the step", told, "small_error", 0.01)
        )
    every_one = [one for ones in every.values() for one in ones if "stash" in one]
    ratios = [one["stash"]["wall_s"] / one["wall_s"] for one in every_one]
    if ratios:
        rows.append(at_least("time of separate runs, of this one's", 3, min(ratios)))
    return rows


def _worst(what: str, every: dict[str, list[dict[str, Any]]], key: str, most: float) -> Result:
    runs = [(name, one) for name, ones in every.items() for one in ones]
    name, one = max(runs, key=lambda run: float(run[1][key]))
    return at_most(f"{what} (worst: {name})", most, round(float(one[key]), 4))


def _line(name: str, one: dict[str, Any]) -> str:
    large, small = one["large_error"], one["small_error"]
    parts = " ".join(
        f"{part} {1000 * one['record'][part]:.1f}/{1000 * seconds:.1f}"
        for part, seconds in one["true"].items()
        if max(seconds, one["record"][part]) >= 0.002
    )
    return (
        f"{name:22} step {1000 * one['step_s']:6.1f} ms, large {large:6.1%}, small {small:6.1%},"
        f" sum {one['sum_error']:5.1%}, AU {one['au']:.3f} ({one['au_error']:+.3f}):"
        f" record/true ms {parts}"
    )


def show(measured: Result) -> None:
    """One line for each run."""
    for name, ones in measured["figures"].items():
        for one in ones:
            print(_line(name, one))
    for row in measured["wanted"]:
        print(
            f"{'met   ' if row['met'] else 'missed'} {row['what']}: {row['got']} ({row['target']})"
        )


def main() -> None:
    """Measure and print."""
    parser = options(__doc__, quick="five configurations, one seed, 60 steps")
    parser.add_argument("--only", action="append", choices=list(CONFIGURATIONS), help="repeatable")
    parser.add_argument("--seeds", type=int, help="of each configuration (10; quick: 1)")
    parser.add_argument("--steps", type=int, help="of each run (150; quick: 60)")
    parser.add_argument("--windows", action="store_true", help="run each in windows, too")
    parser.add_argument("--separate", action="store_true", help="run Stash's separate runs, too")
    run(parser, result, show)


if __name__ == "__main__":
    main()
