"""Ingest and predict at scale: records/s, size of history.db, and `predict` from start to answer.

Records are ingested from files into a history that holds `--runs` runs already; an empty history
takes the same records as its baseline. `predict` runs without an advisor, so that it reads
history.db itself, at 1,000 runs and at `--runs`, interleaved with a bare `python3 -c pass`.
Processor time stands beside wall time, which says little while others work.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from contrib.bench.common import synthetic_history
from contrib.bench.common.measure import Spent, quartiles, timed
from contrib.bench.common.program import at_least, at_most, options, run
from slurm_ext.history.ingest.spool_folder import ingest_folder
from slurm_ext.history.store.store import open_history

SMALL_RUNS = 1_000
WANTED_RECORDS_PER_S = 2000
WANTED_FLAT = 1.1  # predict at the large history over the small one
WANTED_OVER_BARE = 5.0


def main() -> None:
    """Print the figures, the last line as one JSON object."""
    parser = options(__doc__, quick="small figures, to see that it works")
    parser.add_argument("--runs", type=int, help="runs in the large history (1,000,000)")
    run(parser, result, lambda _: None)


def result(args: argparse.Namespace) -> dict[str, Any]:
    """The benchmark's last line; without --json, figures are printed as they are measured."""
    runs = args.runs or (20_000 if args.quick else 1_000_000)
    records, repeats = (1_000, 5) if args.quick else (10_000, 31)
    with tempfile.TemporaryDirectory(prefix="dlqueue-bench-") as folder:
        figures = measure(Path(folder), runs, records, repeats, say=not args.json)
    return {"bench": "ingest", "figures": figures, "wanted": wanted(figures)}


def measure(root: Path, runs: int, records: int, repeats: int, *, say: bool) -> dict[str, Any]:
    """All figures, in a folder of their own."""
    small, large = prepared(root / "small", SMALL_RUNS), prepared(root / "large", runs)
    prefilled_mib = size_mib(large)
    tell(say, f"histories of {SMALL_RUNS} and {runs} runs: {prefilled_mib:.0f} MiB")
    (empty_s, empty_cpu_s), (spent_s, cpu_s) = ingested_s(root / "empty", large, records)
    per_s, empty_per_s = records / spent_s, records / empty_s
    tell(say, f"ingest: {per_s:.0f} records/s, {empty_per_s:.0f} into an empty history")
    per_run = size_mib(root / "empty" / "history.db") / (3 * records)
    times = predict_times(root, (small, large), repeats)
    return {
        "runs": runs,
        "records_per_s": round(per_s),
        "records_per_s_empty": round(empty_per_s),
        "cpu_us_per_record": round(1e6 * cpu_s / records),
        "cpu_us_per_record_empty": round(1e6 * empty_cpu_s / records),
        "db_mib": round(prefilled_mib),
        "db_mib_whole_records_extrapolated": round(per_run * runs),
        "predict_ms_1e3": middle(times["small"]),
        "predict_ms_1e6": middle(times["large"]),
        "bare_python_ms": middle(times["bare"]),
        "predict_cpu_over_bare": round(cpu_s_of(times["large"]) / cpu_s_of(times["bare"]), 2),
        "repeats": repeats,
        "spread_ms": {
            name: quartiles([1000 * one.seconds for one in spent]) for name, spent in times.items()
        },
    }


def prepared(state: Path, runs: int) -> Path:
    """A state folder's history with so many runs."""
    state.mkdir(parents=True)
    synthetic_history.fill(state / "history.db", runs)
    (state / "dlqueue.toml").write_text(
        f'[paths]\nstate_dir = "{state}"\nsocket = "{state}/none.sock"\n'
    )
    return state / "history.db"


Seconds = tuple[float, float]  # of a clock, and of the processor


def ingested_s(empty: Path, large: Path, records: int) -> tuple[Seconds, Seconds]:
    """Medians of three rounds, the empty history and the large one by turns."""
    empty.mkdir()
    by_database: dict[Path, list[Seconds]] = {empty / "history.db": [], large: []}
    for turn in range(3):
        for database, spent in by_database.items():
            spool = database.parent / "spool"
            synthetic_history.write_records(spool, 10_000_000 + turn * records, records)
            spent.append(seconds_of_ingest(database, spool, records))
    into_empty, into_large = (
        (median(wall_s for wall_s, _ in spent), median(cpu_s for _, cpu_s in spent))
        for spent in by_database.values()
    )
    return into_empty, into_large


def seconds_of_ingest(database: Path, spool: Path, records: int) -> Seconds:
    """From the first file's reading to the last one's deletion."""
    with open_history(database) as history:
        started, cpu_started = time.perf_counter(), time.process_time()
        report = ingest_folder(history, spool, now_s=time.time())
        spent = time.perf_counter() - started, time.process_time() - cpu_started
    if report.taken != records:
        raise SystemExit(f"expected {records} records to be taken: {report}")
    return spent


def predict_times(root: Path, histories: tuple[Path, Path], repeats: int) -> dict[str, list[Spent]]:
    """From start to answer, interleaved with a bare interpreter."""
    job = root / "train.sh"
    job.write_text(synthetic_history.script(7))
    predict = [str(Path(sys.executable).with_name("dlqueue")), "predict", str(job), "--json"]
    commands = {
        "bare": [sys.executable, "-c", "pass"],
        "small": [*predict, "--config", str(histories[0].with_name("dlqueue.toml"))],
        "large": [*predict, "--config", str(histories[1].with_name("dlqueue.toml"))],
    }
    times: dict[str, list[Spent]] = {name: [] for name in commands}
    for turn in range(repeats + 1):
        for name, words in commands.items():
            spent = timed(words)
            if turn:  # the first round warms the page cache
                times[name].append(spent)
    return times


def middle(times: list[Spent]) -> float:
    """Median milliseconds."""
    return round(1000 * median(one.seconds for one in times), 2)


def cpu_s_of(times: list[Spent]) -> float:
    """Median seconds of the processor."""
    return median(one.cpu_s for one in times)


def size_mib(database: Path) -> float:
    """The file without its write-ahead log, which is folded in first."""
    with open_history(database) as history:
        history.conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return database.stat().st_size / (1 << 20)


def wanted(figures: dict[str, Any]) -> list[dict[str, Any]]:
    """The targets, met or not."""
    flat = figures["predict_ms_1e6"] / figures["predict_ms_1e3"]
    over_bare = figures["predict_ms_1e6"] / figures["bare_python_ms"]
    per_s = figures["records_per_s"]
    return [
        at_least("records/s", WANTED_RECORDS_PER_S, round(per_s, 2)),
        at_most("predict at 1e6 / 1e3 runs", WANTED_FLAT, round(flat, 2)),
        at_most("predict / bare python", WANTED_OVER_BARE, round(over_bare, 2)),
    ]


def tell(say: bool, line: str) -> None:
    """A line for people."""
    if say:
        print(line, flush=True)


if __name__ == "__main__":
    main()
