"""Options, rows of `wanted`, and the last line of every benchmark.

def main() -> None:
    parser = options(__doc__, quick="one table")
    parser.add_argument("--more")
    run(parser, result, show)
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from slurm_ext.core.errors import DlqueueError

Result = dict[str, Any]
"""{"bench": name, "figures": everything measured, "wanted": rows}."""


def options(doc: str | None, *, quick: str) -> argparse.ArgumentParser:
    """Parser with the options of every benchmark; `quick` is the help of --quick."""
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="print only the JSON object")
    parser.add_argument("--quick", action="store_true", help=quick)
    return parser


def folders(parser: argparse.ArgumentParser, *, train: str, test: str) -> None:
    """Add the options of the folder to learn from and the folder to score on."""
    parser.add_argument("--train", type=Path, required=True, help=train)
    parser.add_argument("--test", type=Path, required=True, help=test)


@contextmanager
def kept_folder(state: Path | None) -> Iterator[Path]:
    """Make the folder of --state, which the next start goes on from; else one for this start."""
    if state is not None:
        state.mkdir(parents=True, exist_ok=True)
        yield state.resolve()
        return
    with tempfile.TemporaryDirectory(prefix="dlqueue-bench-") as folder:
        yield Path(folder)


def run(
    parser: argparse.ArgumentParser,
    result: Callable[[argparse.Namespace], Result],
    show: Callable[[Result], None],
) -> None:
    """Measure, show it to people unless --json, print the object; exit 1 if input is unusable."""
    args = parser.parse_args()
    try:
        measured = result(args)
    except DlqueueError as error:
        print(error, file=sys.stderr)
        raise SystemExit(1) from None
    if not args.json:
        show(measured)
    print(json.dumps(measured))


def row(what: str, target: object, got: object, *, met: bool) -> Result:
    """Row of `wanted`; a missed target stays in it."""
    return {"what": what, "target": target, "got": got, "met": bool(met)}


def at_most(what: str, most: float, got: float) -> Result:
    """Row that is met if `got` is at most `most`, in the same unit."""
    return row(what, f"<= {most:g}", got, met=got <= most)


def at_least(what: str, least: float, got: float) -> Result:
    """Row that is met if `got` is at least `least`, in the same unit."""
    return row(what, f">= {least:g}", got, met=got >= least)
