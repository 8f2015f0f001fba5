"""Each program of the catalogue three times: without dlqueue, watched, and moved to two workers.

    python -m contrib.bench.foreign [--only NAME] [--libraries FOLDER] [--state FILE] [--page FILE]
                                    [--quick] [--json]

The program counts its samples, its steps, its seconds and its losses itself. Beside them stand the
figure that a run record's reader gets from the probe's summaries, the gate's decision, the exit
statuses, and what was said that is not said without dlqueue. Libraries are installed once into
--libraries; no program fetches data. With --state a program's line is kept once it is whole, with
the commit that it was measured at, and the next call goes on with those that the file lacks.
"""

import argparse
import compileall
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

from contrib.bench.common.kept_steps import KeptSteps
from contrib.bench.common.program import Result, at_least, options, run
from contrib.bench.common.tree import commit
from contrib.bench.foreign.catalogue import PROGRAMS
from contrib.bench.foreign.libraries import interpreters
from contrib.bench.foreign.page import write_page
from contrib.bench.foreign.program import Program
from contrib.bench.foreign.runs import ROOT, WAYS, ran
from contrib.bench.foreign.verdict import NEAR, judged, reasons

WANTED = 0.95


def main() -> None:
    """Measures, and prints one JSON object on the last line."""
    parser = options(__doc__, quick="programs on torch alone: nothing is installed")
    parser.add_argument("--only", metavar="NAME", help="programs whose name has this in it")
    parser.add_argument("--libraries", type=Path, default=ROOT / "build" / "foreign")
    parser.add_argument("--state", type=Path, help="file to keep lines in, and go on from")
    parser.add_argument("--page", type=Path, help="Markdown of all programs")
    run(parser, result, show)


def result(args: argparse.Namespace) -> Result:
    """The benchmark's last line."""
    chosen = [one for one in PROGRAMS if not args.only or args.only in one.name]
    if args.quick:
        chosen = [one for one in chosen if not one.library]
    pythons, skipped = interpreters(chosen, args.libraries)
    chosen = [one for one in chosen if one.name not in skipped]
    compileall.compile_dir(ROOT / "slurm_ext", quiet=2)  # as installing does: no step waits for it
    with tempfile.TemporaryDirectory() as folder:
        kept = KeptSteps(args.state or Path(folder, "lines.json"), "three ways")
        lines = [kept.step(one.name, partial(line, pythons[one], one)) for one in chosen]
    measured = summed(chosen, lines, skipped)
    if args.page:
        write_page(args.page, measured["figures"], measured["wanted"])
    return measured


def line(python: Path, program: Program) -> dict[str, Any]:
    """One program's line, by three runs."""
    print(program.name, file=sys.stderr, flush=True)
    told = judged(program, *(ran(python, program, way) for way in WAYS))
    return {**told, "commit": commit()}


def summed(programs: list[Program], rows: list[dict[str, Any]], skipped: dict[str, str]) -> Result:
    """Shares over all programs, and what stands against the rest."""
    told = [row for row in rows if row["figure"] is not None]
    why = {one.name: reasons(one, row) for one, row in zip(programs, rows, strict=True)}
    compared = [row for one, row in zip(programs, rows, strict=True) if not one.races]
    shares = {
        "share with a figure": _share(len(told), len(rows)),
        "share of those within 5 %": _share(
            sum(abs(row["error"]) <= NEAR for row in told), len(told)
        ),
        "share with equal results": _share(sum(row["equal"] for row in compared), len(compared)),
    }
    least = dict(zip(shares, (WANTED, WANTED, 1.0), strict=True))
    return {
        "bench": "foreign",
        "figures": {
            "n": len(rows),
            **shares,
            "reasons": {name: clauses for name, clauses in why.items() if clauses},
            "skipped": skipped,
            "rows": rows,
        },
        "wanted": [at_least(name, least[name], share) for name, share in shares.items()],
    }


def _share(part: int, whole: int) -> float:
    return round(part / whole, 3) if whole else 0.0


def show(measured: Result) -> None:
    """The table, a line for each program."""
    print(f"{'program':34} {'figure':>18} {'truth':>10} {'error':>7} {'same':>4}  decision")
    for row in measured["figures"]["rows"]:
        found = "none" if row["figure"] is None else f"{row['figure']:.1f} {row['kind']}/s"
        true = "" if row["truth"] is None else f"{row['truth']:.1f}"
        error = "" if row["error"] is None else f"{row['error']:+.1%}"
        same = "yes" if row["equal"] else "no"
        print(f"{row['program']:34} {found:>18} {true:>10} {error:>7} {same:>4}  {row['decision']}")
    for name, clauses in measured["figures"]["reasons"].items():
        print(f"{name}: {'; '.join(clauses)}")
    for name, why in measured["figures"]["skipped"].items():
        print(f"skipped: {name}: {why}")


if __name__ == "__main__":
    main()
