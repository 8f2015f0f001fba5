"""Laws of dlqueue's costs by size, measured here, and what they say of a large cluster.

Each part runs at several sizes, each in a process of its own (contrib/bench/scale/parts.py). The
law of a cost is fitted to the sizes; its error is that of the largest one as the others predict it.
The last table is of the cluster that is asked about: `--nodes`, `--running`, `--per-s`,
`--seconds`; a part's "holds" is the largest size within its budget. `slurmctld` itself is not
measured. `--page FILE` writes both tables as Markdown.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from contrib.bench.common.program import Result, at_least, options, run
from contrib.bench.scale.demand import Cluster, demands
from contrib.bench.scale.laws import Law, bounded_law, law_of
from contrib.bench.scale.pages import page
from slurm_ext.core.errors import UsageError
from slurm_ext.history.store.store import open_history

ROOT = Path(__file__).parents[3]
SIZES = {
    "listed_jobs": (1_000, 3_000, 10_000, 30_000),
    "listed_nodes": (100, 1_000, 3_000, 10_000),
    "advisor": (1_000, 10_000, 30_000, 100_000),
    "ingest": (1_000, 10_000, 30_000, 100_000),
}
BOUNDED = ("answer_cpu_s",)  # 16 runs of a level: all 3,000 scripts have them from 48,000 runs on
WITH_HISTORY = ("advisor", "ingest")
QUICK = 3  # of the sizes, each a tenth
LIMIT_S = 900.0


def measured(quick: bool) -> dict[str, dict[str, list[tuple[float, float]]]]:
    """Costs of each part by size."""
    found: dict[str, dict[str, list[tuple[float, float]]]] = {}
    with tempfile.TemporaryDirectory(prefix="dlqueue-bench-") as folder:
        looks = [(size, name) for name in SIZES for size in sizes_of(name, quick)]
        for size, part in sorted(looks):
            costs = _one(part, size, Path(folder))
            print(f"{part} {size:,}: {costs}", file=sys.stderr, flush=True)
            for cost, amount in costs.items():
                found.setdefault(part, {}).setdefault(cost, []).append((size, amount))
    return found


def sizes_of(part: str, quick: bool) -> list[int]:
    """Sizes of a part, the smallest first."""
    return [max(1, size // 10) for size in SIZES[part][:QUICK]] if quick else list(SIZES[part])


def _one(part: str, size: int, folder: Path) -> dict[str, float]:
    """Costs of a part at one size, with a copy of the history, which grows from size to size."""
    with tempfile.TemporaryDirectory(dir=folder) as own:
        if part in WITH_HISTORY:
            shutil.copy(_filled(folder / "history.db", size), own)
        said = _said(["contrib.bench.scale.parts", part, str(size), own])
    costs: dict[str, float] = json.loads(said.splitlines()[-1])
    return costs


def _filled(database: Path, size: int) -> Path:
    """The history with so many runs, of which it may have fewer."""
    with open_history(database) as history:
        (known,) = history.conn.execute("SELECT count(*) FROM runs").fetchone()
    if known < size:
        _said(["contrib.bench.common.synthetic_history", str(database), str(size - known)])
    return database


def _said(words: list[str]) -> str:
    """Output of a program of ours. Raises UsageError with its last words."""
    argv = [sys.executable, "-m", *words]
    done = subprocess.run(
        argv, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or ["it said nothing"]
        raise UsageError(f"{' '.join(words[:3])}: {last[0]}")
    return done.stdout


def laws(points: dict[str, dict[str, list[tuple[float, float]]]]) -> dict[str, dict[str, Law]]:
    """The law of each cost of each part."""
    return {
        part: {
            name: (bounded_law if name in BOUNDED else law_of)(each) for name, each in costs.items()
        }
        for part, costs in points.items()
    }


def result(args: argparse.Namespace) -> Result:
    """The laws, and the cluster's demands."""
    cluster = Cluster(
        nodes=args.nodes, running=args.running, per_s=args.per_s, seconds=args.seconds
    )
    if args.page and not args.page.parent.is_dir():
        raise UsageError(f"--page {args.page}: there is no folder {args.page.parent}")
    load, points = round(os.getloadavg()[0], 1), measured(args.quick)
    found = laws(points)
    rows = demands(found, cluster)
    figures: dict[str, Any] = {
        "load": load,
        "points": points,
        "laws": {part: {n: str(law) for n, law in each.items()} for part, each in found.items()},
        "errors": {part: {n: law.error for n, law in each.items()} for part, each in found.items()},
        "demands": rows,
    }
    wanted = [
        at_least(f"{row['part']} ({row['unit']})", row["asked"], row["holds"]) for row in rows
    ]
    measurement = {"bench": "scale", "figures": figures, "wanted": wanted}
    if args.page:
        args.page.write_text(page(figures), encoding="utf-8")
    return measurement


def main() -> None:
    """Measure and print."""
    parser = options(__doc__, quick=f"{QUICK} sizes of each part, each a tenth")
    asked = Cluster()
    parser.add_argument("--nodes", type=int, default=asked.nodes)
    parser.add_argument("--running", type=int, default=asked.running)
    parser.add_argument("--per-s", type=int, default=asked.per_s)
    parser.add_argument("--seconds", type=int, default=asked.seconds)
    parser.add_argument("--page", type=Path, help="write the tables there, as Markdown")
    run(parser, result, lambda found: print(page(found["figures"])))


if __name__ == "__main__":
    main()
