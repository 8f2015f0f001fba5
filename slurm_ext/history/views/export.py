"""The history as a flat file for other engines: CSV and JSON lines always, Parquet with pyarrow.

A file appears whole under its name or not at all.
"""

import csv
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import IO, Any

from slurm_ext.core.csv_cells import csv_cell
from slurm_ext.core.errors import InputError, MissingError

Row = dict[str, Any]
MODE = 0o640  # other users' job names are private
FORMATS = ("csv", "jsonl", "parquet")
_GROUP = 10_000


def write(
    rows: Iterable[Row], names: list[str], kinds: dict[str, str], form: str, output: Path | None
) -> None:
    """Write rows to `output`, or to standard output where that is None (not for Parquet).

    `kinds` has SQLite's type of each column. Raises MissingError or InputError.
    """
    if form == "parquet":
        if output is None:
            raise InputError("--output", "Parquet is binary: name a file")
        with _whole(output) as part:
            _parquet(rows, names, kinds, part)
        return
    writer = _csv if form == "csv" else _jsonl
    if output is None:
        writer(rows, names, sys.stdout)
        return
    with _whole(output) as part, part.open("w", encoding="utf-8", newline="") as stream:
        writer(rows, names, stream)


def _csv(rows: Iterable[Row], names: list[str], stream: IO[str]) -> None:
    writer = csv.DictWriter(stream, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: csv_cell(value) for name, value in row.items()} for row in rows)


def _jsonl(rows: Iterable[Row], _names: list[str], stream: IO[str]) -> None:
    for row in rows:
        stream.write(json.dumps(row, separators=(",", ":")) + "\n")


def _parquet(rows: Iterable[Row], names: list[str], kinds: dict[str, str], part: Path) -> None:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise MissingError(
            "Parquet needs pyarrow, which is not installed",
            "`pip install pyarrow`, or export --format csv",
        ) from None
    types: dict[str, Callable[[], Any]] = {"INTEGER": pa.int64, "REAL": pa.float64}
    schema = pa.schema([(name, types.get(kinds.get(name, ""), pa.string)()) for name in names])
    iterator = iter(rows)
    with pq.ParquetWriter(part, schema) as writer:
        while group := list(islice(iterator, _GROUP)):
            writer.write_table(pa.Table.from_pylist(group, schema=schema))


@contextmanager
def _whole(output: Path) -> Iterator[Path]:
    """A name beside `output` that becomes it at the end; nothing is left behind on an error.

    A device or a pipe is written to itself, never replaced.
    """
    try:
        if output.exists() and not output.is_file():
            yield output
            return
        part = output.with_name(f".{output.name}.{os.getpid()}.part")
        try:
            part.touch(MODE)
            yield part
            part.replace(output)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        raise InputError(str(output), f"cannot be written: {error.strerror}") from None
