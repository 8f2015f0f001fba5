"""Pairs of a pipeline's ends under hostile inputs: seeded, so that each finding comes again.

    python -m contrib.bench.fuzz [--quick] [--inputs N] [--seed S] [--only PAIR] [--json]

Each module of PAIRS has a PAIR (pair.py). Every finding becomes an example in the tests.
"""

import time
from argparse import Namespace
from dataclasses import asdict
from importlib import import_module
from math import ceil
from random import Random
from typing import Any

from contrib.bench.common.program import Result, at_least, at_most, options, run
from contrib.bench.fuzz.pair import KINDS, Pair

PAIRS: tuple[str, ...] = ("run_folders", "records", "submission", "accounting")
"""Modules of this package that have a PAIR, in the order of the pipeline."""
WANTED_INPUTS = 1_000_000  # of all pairs


def main() -> None:
    """Try and print."""
    parser = options(__doc__, quick="2,000 inputs in all")
    parser.add_argument("--inputs", type=int, help="inputs of all pairs (1,000,000)")
    parser.add_argument("--seed", type=int, default=1, help="of the random generator (1)")
    parser.add_argument("--only", metavar="PAIR", help="this pair alone")
    run(parser, result, show)


def result(args: Namespace) -> Result:
    """The benchmark's last line."""
    chosen = [pair for pair in pairs() if args.only in (None, pair.name)]
    inputs = args.inputs or (2_000 if args.quick else WANTED_INPUTS)
    whole = sum(pair.share for pair in chosen)
    figures = {p.name: _tried(p, ceil(inputs * p.share / whole), args.seed) for p in chosen}
    counted = {kind: sum(figure[kind] for figure in figures.values()) for kind in KINDS}
    wanted = [at_least("inputs", WANTED_INPUTS, sum(f["inputs"] for f in figures.values()))]
    wanted += [at_most(kind, 0, number) for kind, number in counted.items()]
    return {"bench": "fuzz", "figures": figures, "wanted": wanted}


def pairs() -> list[Pair]:
    """Every pair."""
    return [import_module(f"{__package__}.{name}").PAIR for name in PAIRS]


def _tried(pair: Pair, inputs: int, seed: int) -> dict[str, Any]:
    began = time.monotonic()
    tried = pair.run(inputs, Random(f"{seed} {pair.name}"))
    return {
        "about": pair.about,
        "inputs": tried.inputs,
        **{kind: tried.counts[kind] for kind in KINDS},
        "seconds": round(time.monotonic() - began, 1),
        "findings": [asdict(finding) for finding in tried.findings],
    }


def show(measured: Result) -> None:
    """One line a pair, one a finding."""
    for name, figure in measured["figures"].items():
        counts = ", ".join(f"{figure[kind]} {kind}" for kind in KINDS)
        print(f"{name} ({figure['about']}): {figure['inputs']} inputs, {counts}")
        for finding in figure["findings"]:
            print(f"    {finding['kind']}: {finding['what']}\n        {finding['given']!r:.300}")


if __name__ == "__main__":
    main()
