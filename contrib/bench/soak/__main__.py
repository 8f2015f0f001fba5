"""Records by the real path for as long as wanted, and a test of what grows without an end.

`dlqueue serve` runs with all of its children. Submissions go over its socket; records with their
tokens go from a node's folder into the spool by the worker's code, as fast as they are taken; the
writer enters them and starts trainings; the advisor refreshes. Every `--every` seconds a row is
written to STATE/rows.jsonl: memory and descriptors of each process, size of history and journals,
records and their rate, what a submission waits. `--state` keeps it all: the next start goes on
where the last one stopped. There is no Slurm: what squeue would say is not part of it.
"""

import argparse
import json
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from contrib.bench.common.program import Result, at_least, at_most, options, row, run
from contrib.bench.soak.feed import MOST_WAITING, Feed
from contrib.bench.soak.service import Service
from contrib.bench.soak.slopes import findings
from slurm_ext.core.errors import UsageError

HOURS, QUICK_HOURS = 8.0, 1 / 60
WANTED = 500_000  # records
ROWS = "rows.jsonl"


def soaked(
    folder: Path, seconds: float, every_s: float, *, say: bool = False
) -> list[dict[str, Any]]:
    """Rows of all starts so far, this one's behind them; the last one is of its end."""
    rows = read_rows(folder / ROWS)
    before_s = rows[-1]["t_s"] if rows else 0.0
    with Service(folder) as service, (folder / ROWS).open("a", encoding="ascii") as file:
        for found in _looks(service, Feed(folder), seconds, every_s):
            rows.append({"t_s": round(before_s + found.pop("after_s"), 1), **found})
            file.write(json.dumps(rows[-1]) + "\n")
            file.flush()
            if say:
                print(rows[-1], flush=True)
    return rows


def _looks(
    service: Service, feed: Feed, seconds: float, every_s: float
) -> Iterator[dict[str, float]]:
    """Feed it, and look at it every so often and at the end."""
    began = looked = time.monotonic()
    known, times = feed.taken(), list[float]()
    while looked < began + seconds:
        until = min(looked + every_s, began + seconds)
        while (now := time.monotonic()) < until:
            if service.backlog() < MOST_WAITING:
                times += feed.turn()
            else:
                time.sleep(0.1)
        taken = feed.taken()
        found = {"after_s": now - began, "records": taken}
        found["rate"] = round((taken - known) / (now - looked), 1)
        found |= {name: round(value, 3) for name, value in service.held().items()}
        yield found | _waits(times)
        known, looked, times = taken, now, []


def _waits(times: list[float]) -> dict[str, float]:
    if len(times) < 2:
        return {}
    return {
        "submit_p50_ms": round(median(times), 3),
        "submit_p99_ms": round(quantiles(times, n=100)[98], 3),
    }


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Rows of earlier starts; the last one may be torn, by a machine that died."""
    if not path.exists():
        return []
    text = path.read_text(encoding="ascii")
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        path.write_text(whole, encoding="ascii")
    rows = []
    for number, line in enumerate(whole.splitlines(), 1):
        try:
            rows.append({**json.loads(line)})
        except (ValueError, TypeError):
            raise UsageError(f"{path}: line {number} is no row of a soak") from None
    return rows


def result(args: argparse.Namespace) -> Result:
    """The benchmark's last line."""
    hours = (QUICK_HOURS if args.quick else HOURS) if args.hours is None else args.hours
    if not 0 < hours <= 1000:
        raise UsageError(f"--hours {hours:g}: more than 0 and at most 1000 are wanted")
    if not 0 < args.every <= 3600:
        raise UsageError(f"--every {args.every:g}: more than 0 and at most 3600 are wanted")
    load = round(os.getloadavg()[0], 1)
    with _folder(args.state) as folder:
        rows = soaked(folder, 3600 * hours, args.every, say=not args.json)
    if not rows:
        raise UsageError(f"--hours {hours:g}: too short for a row, every {args.every:g} s")
    verdicts = findings(rows)
    figures = {"load": load, "rows": len(rows), "first": rows[0], "last": rows[-1]}
    figures |= {"verdicts": verdicts, "rate": median([one["rate"] for one in rows])}
    growing = sorted(name for name, one in verdicts.items() if one["grows"])
    wanted = [at_most("figures that grow and do not level off", 0, len(growing))]
    unknown = sorted(name for name, one in verdicts.items() if one["grows"] is None)
    wanted.append(row("figures with too few rows", [], unknown, met=not unknown))
    wanted.append(at_least("records", WANTED, rows[-1]["records"]))
    return {"bench": "soak", "figures": {**figures, "growing": growing}, "wanted": wanted}


@contextmanager
def _folder(state: Path | None) -> Iterator[Path]:
    if state is not None:
        state.mkdir(parents=True, exist_ok=True)
        yield state.resolve()
        return
    with tempfile.TemporaryDirectory(prefix="dlqueue-bench-") as folder:
        yield Path(folder)


def main() -> None:
    """Soak and print."""
    parser = options(__doc__, quick="one minute")
    parser.add_argument("--hours", type=float, help=f"of this start ({HOURS:g})")
    parser.add_argument("--every", type=float, default=10.0, help="seconds between rows (10)")
    parser.add_argument("--state", type=Path, help="keep everything there, and go on from it")
    run(parser, result, lambda _: None)


if __name__ == "__main__":
    main()
