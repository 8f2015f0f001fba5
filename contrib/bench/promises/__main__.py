"""Promises against what came: random trainings in random surroundings, submitted again and again.

    python -m contrib.bench.promises [--trials 200] [--seed 1] [--state FILE] [--quick] [--json]

Each trial is a new training of a user: one to three jobs of it run first, each where chance puts it
(in a partition that keeps jobs on cores of their own or in one that does not; alone, or beside busy
processes), then one more. All of them pass the advisor, which acts. What it tells of the last one
is held against the program's own clock: of two worlds (on cores of its own, beside others) what is
told of the one that the run's record says it met, or, where the record does not know, of the one
of its surroundings (`worlds_by_surroundings` counts those). A job that was changed runs once more
as its user wrote it, in the same surroundings: the baseline. With --state trials are kept as they
end, and the site beside them.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from random import Random
from typing import Any

from contrib.bench.common.program import Result, at_least, at_most, options, row, run
from contrib.bench.promises.draws import Training, surroundings, training
from contrib.bench.promises.run import ran
from contrib.bench.promises.score import COVERED, MOST_ERROR, Earlier, Promise, scores
from contrib.bench.promises.site import Site
from contrib.bench.promises.state import State, Trial

TRIALS = 200
MOST_SLOWED = 0.02
EARLIER = (1, 2, 3)  # runs before the one that is scored


def main() -> None:
    """Run and print."""
    parser = options(__doc__, quick="six trials")
    parser.add_argument("--trials", type=int, default=TRIALS, help=f"trainings ({TRIALS})")
    parser.add_argument("--seed", type=int, default=1, help="of the random generator (1)")
    parser.add_argument("--state", type=Path, help="file to keep trials in, and go on from")
    run(parser, result, show)


def result(args: argparse.Namespace) -> Result:
    """The benchmark's last line."""
    state, trials = State(args.state, args.seed), 6 if args.quick else args.trials
    with tempfile.TemporaryDirectory(prefix="dlqueue-bench-") as folder:
        site = Site(Path(f"{args.state}.site" if args.state else folder))
        try:
            for number in range(len(state.trials), trials):
                state.keep(_trial(site, Random(f"{args.seed}-{number}")))
                line = _line(state.trials[-1])
                print(f"{number + 1}/{trials} {line}", file=sys.stderr, flush=True)
        finally:
            site.close()
    promises = [one for one in state.trials if isinstance(one, Promise)]
    silent = [one for one in state.trials if isinstance(one, str)]
    if not promises:
        raise SystemExit("nothing was promised: nothing to score")
    figures = {"trials": len(state.trials), "silent": _counted(silent), **scores(promises)}
    rows = [asdict(one) for one in promises]
    return {"bench": "promises", "figures": {**figures, "rows": rows}, "wanted": _wanted(promises)}


def _trial(site: Site, random: Random) -> Trial:
    """The promise on the last job of a new training; a text: why there was none."""
    drawn, number = training(random, len(os.sched_getaffinity(0))), site.jobs
    earlier = random.choice(EARLIER)
    before = tuple(_job(site, number, drawn, random) for _ in range(earlier))
    where = surroundings(random)
    told = site.submit(number, drawn, where)
    came = ran(drawn, where, told.cpus, told.env)
    changed = told.action == "change"
    written = ran(drawn, where, drawn.cpus, {}).samples_per_s if changed else None
    site.ended(told, came)
    judged = site.judged(told, where)
    if judged is None:
        return told.message or "nothing was said"
    return Promise(
        training=number,
        surroundings=where.name,
        runs=earlier,
        action=told.action,
        message=told.message or "",
        **asdict(judged),
        achieved=came.samples_per_s,
        as_written=written,
        cpus=(drawn.cpus, told.cpus),
        drawn=asdict(drawn),
        earlier=before,
    )


def _job(site: Site, number: int, drawn: Training, random: Random) -> Earlier:
    where = surroundings(random)
    told = site.submit(number, drawn, where)
    came = ran(drawn, where, told.cpus, told.env)
    site.ended(told, came)
    return where.name, told.cpus, told.workers, came.samples_per_s


def _wanted(promises: Sequence[Promise]) -> list[Result]:
    figures = scores(promises)
    low, high = COVERED
    rows = [
        row(
            f"coverage {place}",
            list(COVERED),
            one["coverage90"],
            met=low <= one["coverage90"] <= high,
        )
        for place, one in figures.items()
    ]
    changed = max(1, figures["all"]["changed"])
    return [
        *rows,
        at_most("median error", MOST_ERROR, figures["all"]["median_error"]),
        at_most(
            "changed jobs slower than as written", MOST_SLOWED, figures["all"]["slowed"] / changed
        ),
        at_most("jobs that lost by fewer cores", 0, figures["all"]["lost_cores"]),
        at_least("trials", TRIALS, len(promises)),
    ]


def _counted(texts: Sequence[str]) -> dict[str, int]:
    return {text: texts.count(text) for text in sorted(set(texts))}


def _line(one: Trial) -> str:
    if isinstance(one, str):
        return f"no promise: {one}"
    inside = "inside" if one.inside else "OUTSIDE"
    return (
        f"{one.surroundings}: {one.predicted:.1f} ({one.low:.1f} to {one.high:.1f}),"
        f"{' beside others' if one.beside else ''}, came {one.achieved:.1f}, {inside}; {one.action}"
        + (f", as written {one.as_written:.1f}" if one.as_written else "")
    )


def show(measured: Result) -> None:
    """One line for each surroundings."""
    for place, figure in measured["figures"].items():
        if isinstance(figure, dict) and "coverage90" in figure:
            print(f"{place}: {_text(figure)}")


def _text(figure: dict[str, Any]) -> str:
    return (
        f"{figure['promises']} promises, {figure['coverage90']:.0%} inside (high"
        f" {figure['median_high_over_low']:.2f} times low), median error"
        f" {figure['median_error']:.1%}; {figure['changed']} changed, {figure['slowed']} slower"
        f" for it, {figure['lost_cores']} by fewer cores"
    )


if __name__ == "__main__":
    main()
