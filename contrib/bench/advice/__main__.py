"""Twelve faults and two controls, ten seeds each: the first advice against an expert's.

The records come from a simulated machine (machine.py, training.py, ranks.py) that knows nothing of
the rules: processes share cores and a disk, workers deliver in order, ranks send their buckets when
both have them. With --live, faults that this machine can have are real trainings under the real
probe. Trainings with several causes at once are replayed with each remedy (mixed.py). A seed is
right if the first advice is one of the right ones (a control: if there is none) and nothing is said
that must not be. A fault counts as right if all its seeds are. The baseline is the rule of before
on the same records.
"""

import argparse
import random
from collections.abc import Mapping
from typing import Any

from contrib.bench.advice.mixed import mixed
from contrib.bench.advice.present_rule import said as said_before
from contrib.bench.advice.profiles import CONTROLS, PROFILES
from contrib.bench.advice.scoring import Said, scores
from contrib.bench.common.program import at_least, options, row, run
from slurm_ext.core.advice.from_record import advice_of

SEEDS = 10
WANTED = 11  # of the twelve faults
MIXED = 400  # trainings with several causes
AS_GOOD = 0.8  # of them, at least


def main() -> None:
    """Make the records, ask both rules, compare."""
    parser = options(__doc__, quick="three seeds")
    parser.add_argument("--live", action="store_true", help="real trainings, two minutes a fault")
    run(parser, result, show)


def result(args: argparse.Namespace) -> dict[str, Any]:
    """The benchmark's one JSON object."""
    seeds = 3 if args.quick else SEEDS
    ours: dict[str, list[list[Said]]] = {}
    before: dict[str, list[list[Said]]] = {}
    for name, profile in PROFILES.items():
        records = [profile.record(random.Random(f"{name} {seed}")) for seed in range(seeds)]
        ours[name] = [_said(one) for one in records]
        before[name] = [[one] if (one := said_before(r)) else [] for r in records]
    figures = {"seeds": seeds, "ours": scores(ours), "baselines": {"before": scores(before)}}
    figures["mixed"] = mixed(MIXED // 20 if args.quick else MIXED)
    if args.live:
        from contrib.bench.advice.live import live

        figures["live"] = live(2 if args.quick else seeds)
    return {"bench": "advice", "figures": figures, "wanted": wanted(figures)}


def _said(record: dict[str, Any]) -> list[Said]:
    """Advice on a record, with what other nodes' ranks have."""
    found = advice_of(record, record.get("beside") or ())
    return [(one["word"], one["action"]) for one in found]


def wanted(figures: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Rows: faults, controls, what must not be said."""
    ours = figures["ours"]
    rows = [
        at_least("faults of 12 that are right on all seeds", WANTED, ours["faults_right"]),
        at_least("silent controls of 2", len(CONTROLS), ours["controls_silent"]),
        row(
            "said what must not be said",
            0,
            ours["said_what_must_not_be"],
            met=ours["said_what_must_not_be"] == 0,
        ),
    ]
    right = figures["mixed"]["ours"]["right"]
    rows.append(at_least("of several causes, as good as the best remedy", AS_GOOD, right))
    live = figures.get("live")
    if live:
        rows.append(at_least("live faults right on all runs", live["of"], live["faults_right"]))
    return rows


def show(measured: dict[str, Any]) -> None:
    """A line a profile: what was said first of it, and by the rule of before."""
    figures = measured["figures"]
    ours, before = figures["ours"], figures["baselines"]["before"]
    for name in PROFILES:
        seeds = f"{ours['right_seeds'][name]}/{figures['seeds']}"
        print(f"{name:<16} {seeds:>6}  {ours['confusion'][name]}")
        print(f"{'  before':<16} {before['right_seeds'][name]:>4}    {before['confusion'][name]}")


if __name__ == "__main__":
    main()
