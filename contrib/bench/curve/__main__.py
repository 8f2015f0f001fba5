"""Errors of throughput predicted from one run at other shapes, on real DataLoaders.

Every setting (workload, accelerator, cores, workers) runs on this machine, measured by the probe,
with an emulated accelerator (a timed wait per batch). Then every setting is predicted from every
other single run of the same training, and compared with its measured rate. Fractions of a core are
quotas; they are left out if this user may not set any. Baselines on the same pairs: linear
scaling, Amdahl's law on the measured waiting time, and "as the run".

Some runs share their cores with two busy processes of others; predictions from them have figures
of their own. Any other run during which other programs took more than OTHERS of its cores is
repeated once, and left out of the scores if that is no better. The result has the number of such
runs and the scores with them.
"""

import argparse
import itertools
import json
import os
import random
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

from contrib.bench.common.program import options, run
from contrib.bench.curve.loaders import (
    KINDS,
    OTHERS,
    STEPS_S,
    Measured,
    Setting,
    can_confine,
    quietest,
)
from slurm_ext.core.records import Level, LoaderRun
from slurm_ext.model.throughput.estimate import estimate
from slurm_ext.model.throughput.shape_predictor import core_predictor

DATA_BOUND = 0.9  # of the accelerator's rate: below it the data is what was waited for
COVERED = (0.88, 0.92)
SEVERAL = (1, 2, 4)  # runs to predict from: intervals have to shrink

Pair = tuple[Sequence[LoaderRun], LoaderRun]


def settings(quick: bool) -> list[Setting]:
    """Every run to be made, in random order: drift hits all alike."""
    most = len(os.sched_getaffinity(0))
    every = [*_grid(most, ["fast", "slow"] if quick else list(STEPS_S), [0, 2, 6])]
    if not quick:
        every = [*_grid(most, list(STEPS_S), [0, 1, 2, 4, 8])]
        every += _grid(1, ["fast", "middle"], [0, 1, 2, 4]) if most > 1 else []
        for cores in (0.5, most - 0.5) if can_confine() else ():
            every += _grid(cores, ["middle"], [0, 2, 4])
    every += _grid(most, ["middle"] if not quick else ["fast"], [0, 2, 4][: 2 + (not quick)], 2)
    random.Random(7).shuffle(every)
    return every


def _grid(
    cores: float, steps: Sequence[str], workers: Sequence[int], burners: int = 0
) -> list[Setting]:
    return [
        Setting(kind=kind, step=step, cores=cores, workers=count, burners=burners)
        for kind in KINDS
        for step in steps
        for count in workers
    ]


def pairs(known: list[Measured], wanted: list[Measured], data_bound: bool = False) -> list[Pair]:
    """A run and another one of the same training, at another shape.

    `data_bound`: only of settings whose accelerator had to wait.
    """
    return [
        ([a.run], b.run)
        for a in known
        for b in wanted
        if a.setting.training() == b.setting.training()
        and (a.run.workers, a.run.cores) != (b.run.workers, b.run.cores)
        and (not data_bound or b.run.samples_per_s < DATA_BOUND * b.run.accel_samples_per_s)
    ]


def several(runs: list[Measured], count: int) -> list[Pair]:
    """Each run, to be predicted from `count` others of the same training at other shapes."""
    chance = random.Random(11)
    chosen_pairs: list[Pair] = []
    for b in runs:
        others = [([*one], run) for one, run in pairs(runs, [b])]
        if len(others) >= count:
            chosen = chance.sample(others, count)
            chosen_pairs.append(([one[0] for one, _ in chosen], b.run))
    return chosen_pairs


def score(every: list[Pair]) -> dict[str, Any]:
    """Errors of the predictions, ours and the baselines' (which look at the newest run)."""
    ours, inside, widths = [], [], []
    for known, wanted in every:
        belief = estimate({Level.SCRIPT_ARGS: known})
        if belief is None:
            continue
        prediction = core_predictor(belief)(wanted.cores, wanted.workers)
        ours.append(error(prediction.samples_per_s, wanted.samples_per_s))
        inside.append(prediction.interval.low <= wanted.samples_per_s <= prediction.interval.high)
        widths.append(prediction.interval.high / prediction.interval.low)
    if not ours:
        raise SystemExit("too few runs that other processes did not disturb: nothing to score")
    return {
        "pairs": len(every),
        "answered": len(ours),
        "ours": {
            **spread(ours),
            "coverage90": sum(inside) / len(inside),
            "median_high_over_low": median(widths),
        },
        "baselines": {
            name: spread([error(rule(a[0], b), b.samples_per_s) for a, b in every])
            for name, rule in BASELINES.items()
        },
    }


def linear(known: LoaderRun, wanted: LoaderRun) -> float:
    """Twice the workers, twice the rate."""
    return known.samples_per_s * max(1, wanted.workers) / max(1, known.workers)


def amdahl(known: LoaderRun, wanted: LoaderRun) -> float:
    """The step stays, the waiting is shared among the workers."""
    step_s = 1 / known.accel_samples_per_s
    wait_s = max(0.0, 1 / known.samples_per_s - step_s)
    return 1 / (step_s + wait_s * max(1, known.workers) / max(1, wanted.workers))


def as_the_run(known: LoaderRun, _wanted: LoaderRun) -> float:
    """Nothing changes."""
    return known.samples_per_s


BASELINES: dict[str, Callable[[LoaderRun, LoaderRun], float]] = {
    "linear": linear,
    "amdahl": amdahl,
    "as_the_run": as_the_run,
}


def error(predicted: float, measured: float) -> float:
    """Absolute error in per cent of what was measured."""
    return abs(predicted / measured - 1) * 100


def spread(errors: list[float]) -> dict[str, float]:
    """Median and 90th percentile, per cent."""
    ordered = sorted(errors)
    return {"medape": median(ordered), "p90ape": ordered[int(0.9 * (len(ordered) - 1))]}


def result(every: list[Measured]) -> dict[str, Any]:
    """The benchmark's one JSON object."""
    alone = [one for one in every if not one.setting.burners]
    quiet = [one for one in alone if one.others <= OTHERS]
    crowded = [one for one in every if one.setting.burners]
    scores = score(pairs(quiet, quiet))
    figures = {
        **scores,
        "runs": len(every),
        "disturbed_runs_left_out": len(alone) - len(quiet),
        "with_disturbed": score(pairs(alone, alone))["ours"],
        "by_kind": {
            kind: score(pairs(part, part))["ours"]
            for kind in KINDS
            if (part := [one for one in quiet if one.setting.kind == kind])
        },
        "data_bound": score(pairs(quiet, quiet, data_bound=True)),
        "from_crowded_cores": score(pairs(crowded, quiet)),
        "without_to_with_workers": score(
            [pair for pair in pairs(quiet, quiet) if not pair[0][0].workers and pair[1].workers]
        ),
        "from_runs": {
            str(n): score(pairs_of_several)["ours"]
            for n in SEVERAL
            if (pairs_of_several := several(quiet, n))
        },
    }
    return {"bench": "curve", "figures": figures, "wanted": wanted(figures)}


def wanted(figures: dict[str, Any]) -> list[dict[str, Any]]:
    """Targets, each with the measured value."""
    error_all, inside = figures["ours"]["medape"], figures["ours"]["coverage90"]
    waited, crowded = figures["data_bound"], figures["from_crowded_cores"]["ours"]["medape"]
    half = min(one["medape"] for one in waited["baselines"].values()) / 2
    error_waited = waited["ours"]["medape"]
    widths = [one["median_high_over_low"] for one in figures["from_runs"].values()]
    shrink = all(later < earlier for earlier, later in itertools.pairwise(widths))
    rows = [
        ("median error of one-run predictions at most, per cent", 15.0, error_all, error_all <= 15),
        (
            "the same where data is the limit: at most half the best baseline's",
            half,
            error_waited,
            error_waited <= half,
        ),
        ("the same from runs on crowded cores at most, per cent", 15.0, crowded, crowded <= 15),
        ("share inside the 90 % interval", COVERED, inside, COVERED[0] <= inside <= COVERED[1]),
        ("intervals shrink as runs arrive", True, widths, shrink),
    ]
    return [dict(zip(("what", "target", "got", "met"), row, strict=True)) for row in rows]


def main() -> None:
    """Measure (or read what was measured) and score."""
    parser = options(__doc__, quick="fewer settings, shorter runs")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--save", type=Path, help="write the measured runs to this file")
    parser.add_argument("--load", type=Path, help="score the runs of this file, measure nothing")
    run(parser, _result, print_table)


def _result(args: argparse.Namespace) -> dict[str, Any]:
    if args.load:
        rows = json.loads(args.load.read_text())
        runs = [
            Measured(Setting(**row["setting"]), LoaderRun(**row["run"]), row["others"])
            for row in rows
        ]
    else:
        runs = measured(args.quick, 1 if args.quick else args.repeats)
    if args.save:
        args.save.write_text(json.dumps([asdict(one) for one in runs]))
    return result(runs)


def print_table(result: dict[str, Any]) -> None:
    """Median and 90th percentile of the errors, for people."""
    figures = result["figures"]
    print(f"{figures['runs']} runs, {figures['disturbed_runs_left_out']} of them disturbed")
    for title in ("data_bound", "from_crowded_cores", "without_to_with_workers"):
        _print_part(title, figures[title])
    _print_part("all", figures)


def _print_part(title: str, part: dict[str, Any]) -> None:
    print(f"{title}: {part['pairs']} predictions from one run; error in per cent")
    for name, errors in (("ours", part["ours"]), *part["baselines"].items()):
        print(f"  {name:<11} median {errors['medape']:6.1f}   p90 {errors['p90ape']:6.1f}")
    print(f"  inside the 90 % interval: {part['ours']['coverage90']:.1%}")


def measured(quick: bool, repeats: int) -> list[Measured]:
    """Runs of every setting; progress goes to stderr."""
    # torch warns of more workers than cores: here that is what is measured.
    warnings.filterwarnings("ignore", "This DataLoader will create")
    every = settings(quick) * repeats
    runs = []
    for number, one in enumerate(every, 1):
        words = f"{number}/{len(every)} {one.kind} {one.step}"
        print(f"\r{words} {one.cores} cores {one.workers} workers  ", end="", file=sys.stderr)
        runs.append(quietest(one, 1.1))
    print(file=sys.stderr)
    return runs


if __name__ == "__main__":
    main()
