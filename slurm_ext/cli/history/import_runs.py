"""`dlqueue history import`: what a site's accounting knows of earlier jobs."""

import argparse
import gzip
import itertools
import json
import os
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    from slurm_ext.core.settings.document import Settings
    from slurm_ext.history.imports.importing import AccountingSource, ImportCounts, Line
    from slurm_ext.history.store.store import History

USUAL = "365d"
MOST_CHARS = 1 << 20  # of a line: jobstats' summary of a thousand nodes has 100 KiB
HELP = (
    "Take in the jobs of sacct (and jobstats' summaries in AdminComment): from FILE, - for standard"
    " input, or without one by asking slurmdbd. Stopped and started again, it takes each run once."
)
ABOUT = "take in what sacct and jobstats know of earlier jobs"


def configure(verb: argparse.ArgumentParser) -> None:
    """Options of the verb."""
    verb.description = HELP
    verb.add_argument("file", nargs="?", metavar="FILE", help="of sacct -P, with its header")
    verb.add_argument("--delimiter", default="|", help="between fields of FILE (|)")
    verb.add_argument("--timezone", metavar="ZONE", help="of FILE's times, such as Europe/Berlin")
    verb.add_argument("--since", default=USUAL, help=f"ask slurmdbd since then ({USUAL})")


def run(args: argparse.Namespace, settings: "Settings") -> int:
    """Import, and say what came of every line; raises InputError, SlurmError, HistoryError."""
    from slurm_ext.core.errors import UsageError
    from slurm_ext.history.store.store import open_history

    if not args.delimiter:
        raise UsageError("--delimiter '': expected at least one character")
    path = settings.state_dir / "history.db"
    _whose(path)
    site = _site(args, settings)
    with open_history(path, busy_timeout_ms=settings["history.busy_timeout_ms"]) as history:
        tally = _from_file(args, history, site) if args.file else _from_slurm(args, history, site)
    document = _document(args.file or "slurmdbd", tally)
    print(json.dumps(document) if args.json else "\n".join(_lines(document)))
    return 0 if document["jobs"] or document["known"] or not document["bad_lines"] else 1


def _whose(path: Path) -> None:
    """A history that root makes here could not be written by the advisor."""
    from slurm_ext.core.errors import MissingError

    if path.exists():
        return
    if not path.parent.is_dir():
        how = "start the advisor once, or `dlqueue run` a program for a history of your own"
        raise MissingError(f"{path.parent} is not there", how)
    if path.parent.stat().st_uid != os.getuid():
        raise MissingError(f"{path} is not there yet", "start the advisor once: it sets it up")


def _site(args: argparse.Namespace, settings: "Settings") -> "AccountingSource":
    from slurm_ext.history.imports.importing import AccountingSource
    from slurm_ext.slurm.hostlist import expand

    return AccountingSource(
        cluster=settings["site.cluster"],
        names=expand,
        zone=_zone(args.timezone) if args.timezone else None,
        oldest_s=time.time() - settings["history.retention_days"] * 86400.0,
    )


def _zone(name: str) -> Any:
    from zoneinfo import ZoneInfo

    from slurm_ext.core.errors import UsageError

    try:
        return ZoneInfo(name)
    except (OSError, ValueError, KeyError):  # KeyError: no such zone
        raise UsageError(f"--timezone {name!r}: expected a name such as Europe/Berlin") from None


def _from_file(
    args: argparse.Namespace, history: "History", site: "AccountingSource"
) -> "ImportCounts":
    from slurm_ext.history.imports.importing import columns_of, import_lines

    size = None if args.file == "-" else _size(args.file)
    with _opened(args.file) as (text, raw), _bar("lines", size) as moved:
        lines = _split(text, args.delimiter)
        columns = columns_of(args.file, next(lines, (1, [""]))[1])

        def on_batch(number: int, tally: "ImportCounts") -> None:
            moved(raw.tell() if size else number, number, tally)

        return import_lines(history, columns, lines, site, now_s=time.time(), on_batch=on_batch)


def _size(name: str) -> int | None:
    """Size of a file in bytes; None for a pipe, or a file that is not there: reading says which."""
    try:
        return Path(name).stat().st_size
    except (OSError, ValueError):
        return None


def _from_slurm(
    args: argparse.Namespace, history: "History", site: "AccountingSource"
) -> "ImportCounts":
    import shutil

    from slurm_ext.cli.common.time_args import seconds_of
    from slurm_ext.core.errors import MissingError
    from slurm_ext.history.imports.importing import ImportCounts, import_lines
    from slurm_ext.history.imports.sacct import COLUMNS
    from slurm_ext.slurm.sacct import ended, windows

    if shutil.which("sacct") is None:
        how = f"name a FILE that it wrote where Slurm is: sacct -aXP -o {','.join(COLUMNS)}"
        raise MissingError("sacct is not on PATH", how)
    now_s, whole = time.time(), ImportCounts()
    periods = windows(seconds_of("--since", args.since, now_s), now_s)
    with _bar("months", len(periods)) as moved:
        for number, (start_s, end_s) in enumerate(periods, 1):
            lines: Iterator[Line] = enumerate(ended(COLUMNS, start_s, end_s), 1)
            whole.add(import_lines(history, COLUMNS, lines, site, now_s=now_s))
            moved(number, number, whole)
    return whole


@contextmanager
def _opened(name: str) -> Iterator[tuple[IO[str], BinaryIO]]:
    """The text without a byte order mark, other bytes as they are; and the file itself."""
    from slurm_ext.core.errors import unreadable

    try:
        raw = sys.stdin.buffer if name == "-" else Path(name).open("rb")  # noqa: SIM115 (below)
        plain: Any = gzip.GzipFile(fileobj=raw) if name.endswith(".gz") else raw
        with raw, TextIOWrapper(plain, "utf-8-sig", "surrogateescape", newline="\n") as text:
            yield text, raw
    except (OSError, EOFError, zlib.error) as error:
        raise unreadable(name, error) from None


def _split(file: IO[str], delimiter: str) -> Iterator["Line"]:
    for number in itertools.count(1):
        line = file.readline(MOST_CHARS)
        if not line:
            return
        if _is_cut(line):
            while _is_cut(file.readline(MOST_CHARS)):
                pass
            yield number, ()
        elif line.strip():
            yield number, line.rstrip("\r\n").split(delimiter)


def _is_cut(line: str) -> bool:
    return len(line) == MOST_CHARS and not line.endswith("\n")


@contextmanager
def _bar(what: str, total: int | None) -> Iterator[Callable[[int, int, "ImportCounts"], None]]:
    """A bar on standard error, where that is a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("importing", total=total)

        def moved(done: int, number: int, tally: "ImportCounts") -> None:
            text = f"{number} {what}, {tally.jobs} jobs taken"
            bar.update(task, completed=done, description=text)

        yield moved


def _document(source: str, tally: "ImportCounts") -> dict[str, Any]:
    return {
        "v": 1,
        "source": source,
        "jobs": tally.jobs,
        "runs": tally.runs,
        "known": tally.known,
        "skipped": dict(tally.skipped),
        "notes": dict(tally.notes),
        "bad_lines": tally.bad,
    }


def _lines(document: dict[str, Any]) -> Iterator[str]:
    yield f"{document['jobs']} jobs taken ({document['runs']} runs, one for each job and node)"
    if document["known"]:
        yield f"{document['known']} known already"
    for reason, count in document["skipped"].items():
        yield f"{count} skipped: {reason}"
    for reason, count in document["notes"].items():
        yield f"{count} {reason}"
    for bad in document["bad_lines"]:
        yield f"  {ascii(bad)[1:-1]}"
