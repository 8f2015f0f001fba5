"""Time and memory of a report on a long history.

    python -m contrib.bench.report [--runs N] [--folder DIR] [--json] [--quick]

A made-up history (report/history.py, 24 counters a run) is written once, then `dlqueue report` runs
as people run it, a process of its own, for each format; the page is asked for REPEATS times.
"""

import argparse
import sys
import tempfile
from pathlib import Path
from time import monotonic
from typing import Any

from rich.console import Console

from contrib.bench.common.measure import timed
from contrib.bench.common.program import at_most, options, run
from contrib.bench.report import history
from slurm_ext.core.errors import UsageError

RUNS, QUICK = 1_000_000, 20_000
REPEATS = 3
WITHIN_S, WITHIN_MIB = 60.0, 1024.0


def made(folder: Path, runs: int) -> float:
    """Seconds that the history took to write; 0 where it is there already.

    Raises UsageError where the one that is there has another number of runs.
    """
    path, hidden = folder / "history.db", folder / ".history.db"
    began = monotonic()
    if not path.exists():
        hidden.unlink(missing_ok=True)
        history.fill(hidden, runs)
        hidden.replace(path)  # a fill that is cut is begun again
    if (known := history.runs_of(path)) != runs:
        raise UsageError(f"--folder: {folder} has a history of {known} runs, not of {runs}")
    (folder / "dlqueue.toml").write_text(f'[paths]\nstate_dir = "{folder}"\n')
    return monotonic() - began


def measured(folder: Path, form: str) -> dict[str, float]:
    """Seconds, peak memory in MiB and size of one report."""
    output = folder / f"report.{form}"
    words = ["-m", "slurm_ext.cli", "report", "--config", folder / "dlqueue.toml"]
    spent = timed([sys.executable, *map(str, words), "--output", str(output)])
    return {
        "seconds": round(spent.seconds, 2),
        "peak_mib": round(spent.peak_kib / 1024, 1),
        "kib": round(output.stat().st_size / 1024, 1),
    }


def result(folder: Path, runs: int, repeats: int) -> dict[str, Any]:
    """The benchmark's last line."""
    figures: dict[str, Any] = {"runs": runs, "history_s": round(made(folder, runs), 1)}
    figures["history_mib"] = (folder / "history.db").stat().st_size >> 20
    figures["html"] = [measured(folder, "html") for _ in range(repeats)]
    figures |= {form: measured(folder, form) for form in ("md", "csv", "json")}
    every = [*figures["html"], *(figures[form] for form in ("md", "csv", "json"))]
    slowest = max(report["seconds"] for report in every)
    largest = max(report["peak_mib"] for report in every)
    what = f"report of {runs:,} runs"
    return {
        "bench": "report",
        "figures": figures,
        "wanted": [
            at_most(f"{what}: seconds, the slowest", WITHIN_S, slowest),
            at_most(f"{what}: peak memory, MiB", WITHIN_MIB, largest),
        ],
    }


def main() -> None:
    """Write, report, print."""
    parser = options(__doc__, quick=f"{QUICK} runs, one page")
    parser.add_argument("--runs", type=int, help=f"{RUNS} by default")
    parser.add_argument("--folder", type=Path, help="for the history; kept, and used again")
    run(parser, _result, lambda result: Console().print_json(data=result["figures"]))


def _result(args: argparse.Namespace) -> dict[str, Any]:
    runs = args.runs or (QUICK if args.quick else RUNS)
    with tempfile.TemporaryDirectory(prefix="dlq-report-") as temporary:
        folder = args.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        return result(folder, runs, 1 if args.quick else REPEATS)


if __name__ == "__main__":
    main()
