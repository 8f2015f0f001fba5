"""Figures of reach: installing, the first line, `dlqueue run`'s cost, answers over the network.

    python -m contrib.bench.reach [--quick] [--json] [--only PART...]

Each part is a fresh process, environment or folder of its own. The crowd are CROWD users of this
machine (root is needed, else all are one user), niced: they take turns with the advisor on the same
cores, which users of other machines would not.
"""

import argparse
import os
import tempfile
from pathlib import Path
from typing import Any

from rich.console import Console

from contrib.bench.common.program import at_most, options, row, run
from contrib.bench.reach import faults, installing, network, own_run

PARTS = ("install", "run", "network", "doctor")
MISSING = "not measured: tests/integration/test_failover.py has two slurmctlds, this program one"
Rows = list[dict[str, Any]]


def install_rows(folder: Path, quick: bool) -> tuple[dict[str, Any], Rows]:
    """Megabytes of `pip install`, and pip's time."""
    del quick
    found = installing.installed(folder)
    got = found.get("mb_beside_numpy")
    what = "pip install dlqueue: MB beside numpy"
    return found, [at_most(what, 60, got) if got is not None else _missing(what, found["why"])]


def run_rows(folder: Path, quick: bool) -> tuple[dict[str, Any], Rows]:
    """`dlqueue run`: its cost, and its first line."""
    cost = own_run.cost(folder, 3 if quick else 15, 640 if quick else 6400)
    first = own_run.first_line(folder, 640)
    return {"cost": cost, "first_line": first}, [
        at_most("dlqueue run: ms that a program of nothing pays", 100, cost["ms"]),
        at_most("dlqueue run: % that a training pays", 1, cost["percent"]),
        row(
            "first useful line of dlqueue run, s",
            "<= 120",
            first["s"],
            met=bool(first["line"]) and first["s"] <= 120,
        ),
    ]


def network_rows(folder: Path, quick: bool) -> tuple[dict[str, Any], Rows]:
    """Answers from a long history, and submissions beside a crowd."""
    runs = 50_000 if quick else 1_000_000
    with network.site(folder, runs) as made:
        answers = network.commands(made, 3 if quick else 15)
        crowd = network.crowded(made, 300 if quick else 3000, 10.0 if quick else 60.0)
    asked = [(name, answers[name]["median_s"]) for name in ("jobs", "explain", "predict")]
    return {"runs": runs, "answers": answers, "crowd": crowd}, [
        *(at_most(f"{name} over the network, s, {runs:,} runs", 0.3, got) for name, got in asked),
        at_most("p99 of a submission beside 100 users who ask, of that alone", 1.1, crowd["ratio"]),
    ]


def doctor_rows(folder: Path, quick: bool) -> tuple[dict[str, Any], Rows]:
    """Faults that doctor names."""
    del quick
    found = faults.named(folder)
    met = found["named"] == found["of"] >= 30
    return found, [
        row("faults that doctor names", "30 of 30", f"{found['named']} of {found['of']}", met=met)
    ]


def result(args: argparse.Namespace) -> dict[str, Any]:
    """The benchmark's last line."""
    measure = dict(zip(PARTS, (install_rows, run_rows, network_rows, doctor_rows), strict=True))
    figures: dict[str, Any] = {"load_1min": os.getloadavg()[0], "cores": os.cpu_count()}
    wanted: Rows = []
    for part in args.only:
        with tempfile.TemporaryDirectory(prefix="dlq-reach-") as name:
            folder = Path(name)
            folder.chmod(0o755)
            figures[part], rows = measure[part](folder, args.quick)
            wanted += rows
    wanted.append(_missing("failover: records and submissions lost", MISSING))
    return {"bench": "reach", "figures": figures, "wanted": wanted}


def _missing(what: str, why: str) -> dict[str, Any]:
    return row(what, "measured", why, met=False)


def main() -> None:
    """Measure and print; the last line is the JSON object."""
    parser = options(__doc__, quick="50,000 runs, few pairs, ten seconds of the crowd")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, help="some of it")
    run(parser, result, lambda told: Console().print_json(data=told["figures"]))


if __name__ == "__main__":
    main()
