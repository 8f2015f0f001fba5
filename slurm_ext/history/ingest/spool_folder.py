"""The spool folder into history.db: every record exactly once, whatever is killed when.

For each batch: read and check, one transaction, and only then the files are deleted. A crash before
the commit leaves files and no rows; one after it leaves files whose record_id is known already.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from secrets import token_hex

from slurm_ext.core.errors import HistoryError, RecordError
from slurm_ext.core.files import file_version
from slurm_ext.history.ingest.insert import IngestResult, Inserter, RecordRows, rows_of
from slurm_ext.history.ingest.quarantine import quarantine
from slurm_ext.history.ingest.record_reader import parse, read
from slurm_ext.history.store.store import History

BATCH_RECORDS = 500
BATCH_BYTES = 16 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestReport:
    """Records by what became of them; `left` stay for the next time (unreadable now)."""

    taken: int = 0
    replaced: int = 0
    duplicates: int = 0
    quarantined: int = 0
    left: int = 0


@dataclass(frozen=True, slots=True)
class _Arrival:
    """A file of the spool with its checked record."""

    path: Path
    version: tuple[int, int, int] | None
    size_bytes: int
    rows: RecordRows


@dataclass(slots=True)
class _Tally:
    fates: dict[IngestResult, int] = field(default_factory=lambda: dict.fromkeys(IngestResult, 0))
    quarantined: int = 0
    left: int = 0


def ingest_folder(
    history: History, folder: Path, *, now_s: float, step: Callable[[str], None] = lambda _: None
) -> IngestReport:
    """Take in every `*.json` of `folder`; files whose name begins with a dot are still written.

    `step` is told each step as it is reached (tests stop the process there). Raises HistoryError
    with the spool untouched from that batch on, and HistoryError where the folder is unreadable.
    """
    tally = _Tally()
    inserter = Inserter(history.conn)
    for batch in _batches(_arrivals(history, folder, tally, now_s)):
        step("read")
        _commit(history, inserter, batch, tally, now_s, step)
        for arrival in batch:
            step("delete")
            _delete(arrival)
    fates = tally.fates
    return IngestReport(
        taken=fates[IngestResult.TAKEN],
        replaced=fates[IngestResult.REPLACED],
        duplicates=fates[IngestResult.DUPLICATE],
        quarantined=tally.quarantined,
        left=tally.left,
    )


def _commit(
    history: History,
    inserter: Inserter,
    batch: list[_Arrival],
    tally: _Tally,
    now_s: float,
    step: Callable[[str], None],
) -> None:
    try:
        with history.transaction():
            fates = []
            for arrival in batch:
                step("insert")
                fates.append(inserter.put(arrival.rows, now_s))
    except BaseException:
        inserter.forget_names()
        raise
    step("committed")
    for fate in fates:
        tally.fates[fate] += 1


def _batches(arrivals: Iterator[_Arrival]) -> Iterator[list[_Arrival]]:
    """Bounded in number and in bytes, so that memory is."""
    batch: list[_Arrival] = []
    size = 0
    for arrival in arrivals:
        batch.append(arrival)
        size += arrival.size_bytes
        if len(batch) >= BATCH_RECORDS or size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _arrivals(history: History, folder: Path, tally: _Tally, now_s: float) -> Iterator[_Arrival]:
    for path in _listed(folder):
        digest = None
        try:
            version, raw = file_version(path, follow=False), read(path)
            digest = sha256(raw).hexdigest()
            yield _Arrival(path, version, len(raw), rows_of(parse(raw)))
        except FileNotFoundError:
            continue  # another ingester was quicker
        except RecordError as error:
            _put_aside(history, path, error.why, digest, tally, now_s)
        except OSError:
            tally.left += 1  # a disk or a server that does not answer now: the file stays


def _put_aside(
    history: History, path: Path, why: str, digest: str | None, tally: _Tally, now_s: float
) -> None:
    """One file that cannot be moved must not hold up the others: it stays, too."""
    try:
        quarantine(history, path, why, digest, now_s=now_s)
        tally.quarantined += 1
    except OSError:
        tally.left += 1


def _listed(folder: Path) -> Iterator[Path]:
    """Names of finished records; listed whole, because the folder changes under us."""
    try:
        names = os.listdir(folder)  # noqa: PTH208 (a Path for each of a million names is too much)
    except FileNotFoundError:
        return
    except OSError as error:
        raise HistoryError(f"the spool {folder} cannot be listed: {error.strerror}") from None
    for name in names:
        if name.endswith(".json") and not name.startswith("."):
            yield folder / name


def _delete(arrival: _Arrival) -> None:
    """Delete what was read and nothing else: a better record may have come under the same name.

    Renaming first decides that race; what turns out to be new stays, under its other name.
    """
    with suppress(FileNotFoundError):
        mine = arrival.path.with_name(f"taken-{token_hex(8)}.json")
        arrival.path.rename(mine)
        if file_version(mine, follow=False) == arrival.version:
            mine.unlink()
