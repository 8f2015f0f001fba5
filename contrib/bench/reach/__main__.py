"""Figures of reach: installing, the first line, `dlqueue run`'s cost, answers over the network.

    python -m contrib.bench.reach [--quick] [--json] [--only PART...] [--keep DIR [--runs N]]

Each part is a fresh process, environment or folder of its own. With --keep the network's history
and the figures of finished steps stay in DIR: whoever is stopped runs the same words again. The
crowd are CROWD users of this machine (root is needed, else all are one user), niced: they take
turns with the advisor on the same cores, which users of other machines would not.
"""

import argparse
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from contrib.bench.common.kept_steps import KeptSteps
from contrib.bench.common.program import at_most, options, row, run
from contrib.bench.reach import faults, installing, network, own_run

PARTS = ("install", "run", "network", "doctor")
MISSING = "not measured: tests/integration/test_failover.py has two slurmctlds, this program one"
Rows = list[dict[str, Any]]
Measure = Callable[[Path, bool], tuple[dict[str, Any], Rows]]


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


def network_rows(folder: Path, quick: bool, runs: int = 0) -> tuple[dict[str, Any], Rows]:
    """Answers from a long history, and submissions beside a crowd."""
    runs = runs or (50_000 if quick else 1_000_000)
    kept = KeptSteps(folder / "steps.json", f"{runs} runs, {'quick' if quick else 'whole'}")
    with network.site(folder, runs) as made:
        answers = kept.step("answers", lambda: network.commands(made, 3 if quick else 15))
        words = (300, 10.0) if quick else (3000, 60.0)
        crowd = kept.step("crowd", lambda: network.crowded(made, *words))
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
    over_network = partial(network_rows, runs=args.runs)
    parts: list[Measure] = [install_rows, run_rows, over_network, doctor_rows]
    measure = dict(zip(PARTS, parts, strict=True))
    figures: dict[str, Any] = {"load_1min": os.getloadavg()[0], "cores": os.cpu_count()}
    wanted: Rows = []
    for part in args.only:
        with _folder(args.keep if part == "network" else None) as folder:
            figures[part], rows = measure[part](folder, args.quick)
            wanted += rows
    wanted.append(_missing("failover: records and submissions lost", MISSING))
    return {"bench": "reach", "figures": figures, "wanted": wanted}


@contextmanager
def _folder(kept: Path | None) -> Iterator[Path]:
    """A folder that other users may enter: of its own, or one that stays."""
    if kept is not None:
        kept.mkdir(exist_ok=True)
        kept.chmod(0o755)
        yield kept
        return
    with tempfile.TemporaryDirectory(prefix="dlq-reach-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


def _missing(what: str, why: str) -> dict[str, Any]:
    return row(what, "measured", why, met=False)


def main() -> None:
    """Measure and print; the last line is the JSON object."""
    parser = options(__doc__, quick="50,000 runs, few pairs, ten seconds of the crowd")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, help="some of it")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="continue the network's part here")
    parser.add_argument("--runs", type=int, default=0, help="of its history (1,000,000)")
    run(parser, result, lambda told: Console().print_json(data=told["figures"]))


if __name__ == "__main__":
    main()
