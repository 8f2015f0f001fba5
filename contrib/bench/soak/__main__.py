"""Records by the real path for as long as wanted, and a test of what grows without an end.

`dlqueue serve` runs with all of its children. Submissions go over its socket; records with their
tokens go from nodes' folders into the spool by the worker's code, as fast as they are taken; the
writer enters them and starts trainings; the advisor refreshes. Every `--every` seconds a row is
written to STATE/rows.jsonl: memory and descriptors of each process, cores that it kept busy and the
share of time in which it waited for one, size of history and journals, records and their rate, the
share of time in which a full spool held the feed back, what a submission waits. `--state` keeps it
all: the next start goes on where the last one stopped. `--page FILE` writes all rows as Markdown,
with a plot beside it. There is no Slurm: what squeue would say is not part of it.
"""

import argparse
import os
from pathlib import Path
from statistics import median

from contrib.bench.common.program import Result, at_least, at_most, kept_folder, options, row, run
from contrib.bench.common.tree import commit
from contrib.bench.soak.looks import soaked
from contrib.bench.soak.page import write_page
from contrib.bench.soak.slopes import findings
from slurm_ext.core.errors import UsageError

HOURS, QUICK_HOURS = 8.0, 1 / 60
WANTED = 500_000  # records


def result(args: argparse.Namespace) -> Result:
    """The benchmark's last line."""
    hours = (QUICK_HOURS if args.quick else HOURS) if args.hours is None else args.hours
    if not 0 < hours <= 1000:
        raise UsageError(f"--hours {hours:g}: more than 0 and at most 1000 are wanted")
    if not 0 < args.every <= 3600:
        raise UsageError(f"--every {args.every:g}: more than 0 and at most 3600 are wanted")
    load = round(os.getloadavg()[0], 1)
    with kept_folder(args.state) as folder:
        rows = soaked(folder, 3600 * hours, args.every, say=not args.json)
    if not rows:
        raise UsageError(f"--hours {hours:g}: too short for a row, every {args.every:g} s")
    verdicts = findings(rows)
    if args.page is not None:
        write_page(args.page, rows, verdicts, load=load, commit=commit())
    figures = {"load": load, "rows": len(rows), "first": rows[0], "last": rows[-1]}
    figures |= {"verdicts": verdicts, "rate": median([one["rate"] for one in rows])}
    growing = sorted(name for name, one in verdicts.items() if one["grows"])
    wanted = [at_most("figures that grow and do not level off", 0, len(growing))]
    unknown = sorted(name for name, one in verdicts.items() if one["grows"] is None)
    wanted.append(row("figures with too few rows", [], unknown, met=not unknown))
    wanted.append(at_least("records", WANTED, rows[-1]["records"]))
    return {"bench": "soak", "figures": {**figures, "growing": growing}, "wanted": wanted}


def main() -> None:
    """Soak and print."""
    parser = options(__doc__, quick="one minute")
    parser.add_argument("--hours", type=float, help=f"of this start ({HOURS:g})")
    parser.add_argument("--every", type=float, default=10.0, help="seconds between rows (10)")
    parser.add_argument("--state", type=Path, help="keep everything there, and go on from it")
    parser.add_argument("--page", type=Path, help="Markdown of all rows, its plot beside it")
    run(parser, result, lambda _: None)


if __name__ == "__main__":
    main()
