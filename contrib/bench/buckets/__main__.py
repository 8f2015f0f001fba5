"""Gradient buckets over a limited link: predicted, measured by turns, and chosen.

Two and four ranks in network namespaces on one bridge, each of which sends at 200 to 1,600 Mbit/s
(token bucket; needs root), and three models of 32 MiB whose layers sleep: equal layers, a large
classifier whose gradients are ready first, a large embedding whose gradients are ready last. For
each case a job runs once with torch's own buckets and the probe; the plan is made of its record.
Then the same processes train with six single sizes, torch's own and the chosen one, a step of each
by turns: gains, and predictions against torch's own, are medians over rounds of the ratio of two
steps, which a machine that slows all of them leaves alone. Predicted seconds are held to seconds,
too: those differ where the machine was busier in the rounds than in the job's first run. Torch's
own are in each round twice: what they differ by is the noise of a ratio.

Beside it: losses with other buckets, and ranks that are asked for different ones. --nice runs all
of it at the highest priority, for a machine that others use.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Any

from contrib.bench.buckets.measured import AGAIN, DEFAULT, Steps, disagreement_s, losses, measured
from contrib.bench.buckets.shapes import SHAPES
from contrib.bench.common.limited_link import linked
from contrib.bench.common.program import Result, at_least, at_most, options, row, run

RANKS, MBITS = (2, 4), (200, 400, 800, 1600)
LIMITED = 0.10  # of the step exposed: from here on the link is the limit
CHOSEN = "chosen"
_Cases = dict[str, dict[str, Any]]


def cases(args: argparse.Namespace) -> _Cases:
    """All cases, one after the other: by ranks, Mbit/s and shape."""
    steps = Steps(first=20, rounds=12) if args.quick else Steps()
    found: _Cases = {}
    for ranks in args.ranks:
        for mbit in args.mbits:
            with linked(ranks, mbit) as places:
                for shape in args.shapes:
                    name = f"{ranks} ranks, {mbit} Mbit/s, {shape}"
                    found[name] = measured(places, shape, steps)
                    print(line(name, found[name]), file=sys.stderr)
    return found


def result(args: argparse.Namespace) -> Result:
    """Everything that was measured, and what is wanted of it."""
    if args.nice:
        os.nice(-20)
    found = cases(args)
    same: dict[str, Any] = {}
    for ranks in args.ranks:
        with linked(ranks, max(MBITS)) as places:
            same[str(ranks)] = {**losses(places), "disagreement_s": disagreement_s(places)}
    noise = max(abs(one["of_own"][AGAIN] - 1) for one in found.values())
    figures = {"cases": found, "noise": round(noise, 4), "losses": same}
    return {"bench": "buckets", "figures": figures, "wanted": wanted(found, same)}


def gain(one: dict[str, Any], than: str) -> float:
    """Times as fast as with other buckets, less 1."""
    ratios = one["of_own"]
    others = [ratio for name, ratio in ratios.items() if name != AGAIN]
    slowest = max(others) if than == "worst" else ratios[than]
    return float(slowest / ratios[CHOSEN] - 1)


def errors(one: dict[str, Any]) -> list[float]:
    """Relative errors of the predicted seconds."""
    return [one["predicted_s"][name] / s - 1 for name, s in one["measured_s"].items()]


def errors_of_own(one: dict[str, Any]) -> list[float]:
    """Relative errors of what is predicted against torch's own buckets."""
    own_s = one["predicted_s"][DEFAULT]
    return [one["predicted_s"][name] / own_s / r - 1 for name, r in one["of_own"].items()]


def wanted(found: _Cases, same: dict[str, Any]) -> Sequence[Result]:
    """The issue's targets; the worst case of each."""
    cases = [*found.values()]
    limited = [one for one in cases if one["exposed"] >= LIMITED]
    every = [abs(error) for one in cases for error in errors(one)]
    of_own = [abs(error) for one in cases for error in errors_of_own(one)]
    rows = [
        at_most("largest error of a predicted step", 0.10, round(max(every), 4)),
        at_least("share of predictions within 10 %", 1.0, _share(every)),
        at_most("largest error against torch's own", 0.10, round(max(of_own), 4)),
        at_least("chosen against the worst size", 0.10, _least(cases, "worst")),
        at_least("chosen against torch's own", -0.02, _least(cases, DEFAULT)),
        at_most("the logger's reader, of the time", 0.001, max(one["reading"] for one in cases)),
    ]
    if limited:
        rows.append(at_least("the same where the link limits", 0.05, _least(limited, DEFAULT)))
    for ranks, one in same.items():
        what = f"largest difference of losses, {ranks} ranks"
        rows.append(at_most(what, 1e-6, one["largest"]))
        if ranks == "2":
            rows.append(row("the same bits, 2 ranks", True, one["same_bits"], met=one["same_bits"]))
        waited = round(one["disagreement_s"], 3)
        rows.append(at_most(f"seconds to a module if {ranks} ranks disagree", 30.0, waited))
    return rows


def _least(cases: Sequence[dict[str, Any]], than: str) -> float:
    return round(min(gain(one, than) for one in cases), 4)


def _share(every: Sequence[float]) -> float:
    return round(sum(error <= 0.10 for error in every) / len(every), 3)


def line(name: str, one: dict[str, Any]) -> str:
    """One case for people."""
    each = zip(one["measured_s"].items(), errors(one), errors_of_own(one), strict=True)
    clock = " ".join(f"{kind} {1000 * s:.0f} ({e:+.0%}, {o:+.0%})" for (kind, s), e, o in each)
    gains = f"{gain(one, DEFAULT):+.1%} of torch's own, {gain(one, 'worst'):+.1%} of the worst"
    return f"{name}: ms (errors, and against torch's own): {clock}; {one['chosen']} KiB: {gains}"


def show(made: Result) -> None:
    """A line for each case, then the targets."""
    for name, one in made["figures"]["cases"].items():
        print(line(name, one))
    for one in made["wanted"]:
        met = "met   " if one["met"] else "missed"
        print(f"{met} {one['what']}: {one['got']} ({one['target']})")


def main() -> None:
    """Measure and print."""
    parser = options(__doc__, quick="twelve rounds")
    parser.add_argument("--ranks", type=int, nargs="+", default=RANKS)
    parser.add_argument("--mbits", type=int, nargs="+", default=MBITS)
    parser.add_argument("--shapes", nargs="+", default=list(SHAPES), choices=list(SHAPES))
    parser.add_argument("--nice", action="store_true", help="run at the highest priority")
    run(parser, result, show)


if __name__ == "__main__":
    main()
