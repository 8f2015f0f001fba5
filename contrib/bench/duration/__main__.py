"""Errors of job durations predicted at submission, on published traces.

    python -m contrib.bench.duration --train DIR --test DIR [--only NAME,...] [--json] [--quick]

Both folders have the traces' published names; a trace that the test folder lacks is named and left
out. One folder twice is development: the last quarter of its jobs, by submission, is the test.
replay.py says what is known when; baselines.py has the rules that ours is compared with.

Chosen on the last quarter of the development traces, one setting for all: size and kind of the
trees, the halves of the mean, how fast bounds move, and that running jobs move them. So
development's figures flatter; a later folder's do not. LCG's test covers days: less than one week.

NASA, in development: logs of jobs of one user, program and size within six hours differ by a
variance of 1.04 (of 3.48 in all), so even their true mean would give R2 0.70. Levels of the last
program or the time of day, the machine's load, weights by age, other trees: all within 0.002.

Philly, quarters 2, 3 and 4, each learned from those before, R2 of logs: trees 0.383, 0.327, 0.542,
with ended jobs alone 0.389, 0.362, 0.529. A Gaussian process over submission times of a virtual
cluster (the last 48, running ones censored at their age, by Laplace's approximation) alone 0.397,
0.131, 0.448; as features of the trees 0.451, 0.361, 0.557. Not built: its gain is that of
a few sweeps (one cluster's are 6,516 of the third quarter's 16,116 jobs).
"""

from argparse import Namespace
from collections.abc import Set
from pathlib import Path
from time import monotonic
from typing import Any

from rich.console import Console

from contrib.bench.common.program import Result, folders, options, row, run
from contrib.bench.duration import replay, scores
from contrib.bench.duration.tables import TABLES
from slurm_ext.core.errors import InputError

TARGETS = {"philly": 0.50, "nasa": 0.62, "lcg": 0.69}  # R2 of logs on the held-out weeks
HELD = (0.88, 0.92)


def result(train: Path, test: Path, names: Set[str], *, quick: bool) -> dict[str, Any]:
    """The benchmark's last line. Raises InputError if no trace can be used."""
    began = monotonic()
    figures: dict[str, Any] = {}
    wanted: list[dict[str, Any]] = []
    skipped: list[str] = []
    console = Console(stderr=True)
    for table in (table for table in TABLES if table.name in names):
        console.print(f"{table.name} ...")
        try:
            part = replay.scored(table, train, test, quick=quick)
        except InputError as error:
            skipped.append(str(error))
            continue
        skipped += part.pop("skipped")
        figures[table.name] = part
        wanted += _wanted(table.name, part)
    if not figures:
        raise InputError(str(test), "; ".join(skipped))
    figures |= {"skipped": skipped, "quick": quick, "seconds": round(monotonic() - began, 1)}
    return {"bench": "duration", "figures": figures, "wanted": wanted}


def _wanted(name: str, part: dict[str, Any]) -> list[Result]:
    got, target = part["ours"]["log_r2"], TARGETS[name]
    met = got is not None and got >= target
    rows = [row(f"{name}: R2 of log durations", f">= {target}", got, met=met)]
    worst, met = scores.judged_weeks(part["weeks"], HELD)
    if worst is not None:
        what = f"{name}: 90 % interval holds, every week that can be judged"
        rows.append(row(what, "0.88 to 0.92", worst, met=met))
    return rows


def main() -> None:
    """Score and print; 1 where a folder cannot be used."""
    parser = options(__doc__, quick="fewer jobs, one training each")
    folders(parser, train="folder of traces to learn from", test="folder of later traces")
    parser.add_argument("--only", default=",".join(TARGETS), help="traces: philly,nasa,lcg")

    def scored(args: Namespace) -> Result:
        names = set(args.only.split(","))
        if not names <= set(TARGETS):
            parser.error(f"--only {args.only}: expected {','.join(TARGETS)}, or some of them")
        return result(args.train, args.test, names, quick=args.quick)

    run(parser, scored, lambda result: _print(result["figures"]))


def _print(figures: dict[str, Any]) -> None:
    """Figures of every rule, for people."""
    for line in figures["skipped"][:20]:
        print("left out:", line)
    for name, part in figures.items():
        if not isinstance(part, dict):
            continue
        running = f"{part['still_running']} still ran at the end and are not scored"
        print(f"{name}: {part['n']} jobs ({running}), learned from {part['learnt_from']}")
        ours = (("ours", part["ours"]), ("ours, median", part["ours_median"]))
        for rule, one in (*ours, *part["baselines"].items()):
            shown = {key: one.get(key) for key in ("log_r2", "spearman", "mae", "medape")}
            cells = (f"{key} {value:8.4g}" for key, value in shown.items() if value is not None)
            print(f"  {rule:<16}" + "  ".join(cells))
        weeks = " ".join(f"{low:.3f}-{high:.3f}" for _, low, high in part["weeks"])
        print(f"  90 % interval holds {part['ours']['coverage90']:.3f}; by week, of all, {weeks}")


if __name__ == "__main__":
    main()
