"""Errors of throughput predicted from few measurements, on published tables.

    python -m contrib.bench.throughput --train DIR --test DIR [--json] [--quick]

Both folders have the tables' published names; a table that the test folder lacks is named and left
out. Protocols and baselines: throughput/few_points.py (GPUs, nodes and batch from 3 to 20 measured
configs) and throughput/scale (8 to 64 GPUs, 8 threads). Errors are in per cent.
"""

from pathlib import Path
from time import monotonic
from typing import Any

from rich.console import Console
from rich.progress import Progress

from contrib.bench.common.program import folders, options, run
from contrib.bench.throughput import few_points
from contrib.bench.throughput.scale import __main__ as throughput_scale
from slurm_ext.core.errors import InputError


def result(train: Path, test: Path, *, quick: bool) -> dict[str, Any]:
    """The benchmark's last line. Raises InputError if neither folder suits any protocol."""
    began = monotonic()
    figures: dict[str, Any] = {}
    rows: list[dict[str, Any]] = []
    skipped: list[str] = []
    parts = ((few_points, _points), (throughput_scale, throughput_scale.run))
    for module, protocol in parts:
        try:
            part = protocol(train, test, quick=quick)
        except InputError as error:
            skipped.append(str(error))
            continue
        skipped += part.pop("skipped")
        figures |= part
        rows += module.wanted(part)
    if not figures:
        raise InputError(str(test), "; ".join(skipped))
    figures |= {"skipped": skipped, "quick": quick, "seconds": round(monotonic() - began, 1)}
    return {"bench": "throughput", "figures": figures, "wanted": rows}


def main() -> None:
    """Score and print; 1 where a folder cannot be used."""
    parser = options(__doc__, quick="two trainings, one seed")
    folders(parser, train="folder of tables to learn from", test="folder of tables to predict")
    run(parser, lambda args: result(args.train, args.test, quick=args.quick), _print)


def _points(train: Path, test: Path, *, quick: bool) -> dict[str, Any]:
    with Progress(console=Console(stderr=True)) as progress:
        task = progress.add_task("trainings", total=1.0)
        figures: dict[str, Any] = few_points.run(
            train, test, quick=quick, progress=lambda share: progress.update(task, completed=share)
        )
    return figures


def _print(result: dict[str, Any]) -> None:
    """Errors of every method, for people."""
    figures = result["figures"]
    for line in figures["skipped"]:
        print("left out:", line)
    for protocol, part in figures.items():
        if not isinstance(part, dict) or "ours" not in part:
            continue
        print(f"{protocol}: {part['n']} rows")
        for name, row in (("ours", part["ours"]), *part["baselines"].items()):
            shown = {key: row.get(key) for key in ("medape", "mape", "spearman", "coverage90")}
            cells = (f"{key} {value:7.3g}" for key, value in shown.items() if value is not None)
            print(f"  {name:<20}" + "  ".join(cells))


if __name__ == "__main__":
    main()
