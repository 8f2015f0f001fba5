"""Counts of the source tree, and of the files and functions that real calls pass.

    python -m contrib.bench.house [--json] [--quick]

Names behind the counts of one call: `python -m contrib.bench.house.ways submission`.
"""

from argparse import Namespace
from typing import Any

from contrib.bench.common.program import Result, at_most, options, run
from contrib.bench.house import tree, ways

MOST = {
    "product": {
        "most_files_in_a_folder": 20,
        "modules_below_50_lines": 35,
        "lines": 48_000,
        "class_names_with_several_meanings": 5,
        "import_circles": 0,
        "first_lines_in_dialect": 0,
        "formatter_tricks": 0,
    },
    "benchmarks": {
        "most_files_in_a_folder": 17,
        "type_ignores_of_imports": 0,
        "first_lines_in_dialect": 0,
        "formatter_tricks": 0,
    },
    "submission": {"files": 16, "functions": 80, "room_switches": 12},
    "ingest": {"functions": 45, "calls": 600},
    "predict": {"files": 30},
    "control": {"daemons": 1, "state_folders": 2},
}


def main() -> None:
    """Count and print."""
    parser = options(__doc__, quick="the tree alone: nothing is called")
    run(parser, result, show)


def result(args: Namespace) -> Result:
    """The benchmark's last line."""
    figures: dict[str, Any] = {
        "product": tree.product(),
        "benchmarks": tree.benchmarks(),
        "control": tree.control(),
    }
    if not args.quick:
        figures |= {name: {**ways.counted(name), "names": None} for name in ways.WAYS}
    wanted = [
        at_most(f"{part}: {what}", most, _count(figures[part][what]))
        for part, targets in MOST.items()
        if part in figures
        for what, most in targets.items()
    ]
    return {"bench": "house", "figures": figures, "wanted": wanted}


def show(result: Result) -> None:
    """Each count beside its target."""
    for row in result["wanted"]:
        print(f"{row['got']:>7g}  {row['target']:>9}  {row['what']}")


def _count(value: float | list[str]) -> float:
    return len(value) if isinstance(value, list) else value


if __name__ == "__main__":
    main()
