"""The spool folder into history.db: every record exactly once, whatever is killed when.

For each batch: read and check, one transaction, and only then the files are deleted. A crash before
the commit leaves files and no rows; one after it leaves files whose record_id is known already.
"""

import os
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from secrets import token_hex

from slurm_ext.core.errors import HistoryError, RecordError
from slurm_ext.core.files import file_version
from slurm_ext.history.ingest.insert import REFUSED, IngestResult, Inserter
from slurm_ext.history.ingest.quarantine import quarantine
from slurm_ext.history.ingest.rows import RecordRows, rows_of
from slurm_ext.history.store.store import History
from slurm_ext.node.record.reader import UnusableRecordError, read_raw, validate

BATCH_RECORDS = 500
BATCH_BYTES = 16 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestReport:
    """Counts of records by result; `left` stay for the next time (unreadable now)."""

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
    sha256: str
    rows: RecordRows


@dataclass(slots=True)
class _Counts:
    results: Counter[IngestResult] = field(default_factory=Counter)
    quarantined: int = 0
    left: int = 0


def ingest_folder(
    history: History, folder: Path, *, now_s: float, step: Callable[[str], None] = lambda _: None
) -> IngestReport:
    """Take in every `*.json` of `folder`; files whose name begins with a dot are still written.

    `step` is called with the name of each step (tests stop the process there). Raises HistoryError
    with the spool untouched from that batch on, and HistoryError where the folder is unreadable.
    """
    spool = _Spool(history, now_s, step)
    for batch in _batches(spool.arrivals(folder)):
        step("read")
        spool.commit(batch)
    counts = spool.counts
    return IngestReport(
        taken=counts.results[IngestResult.TAKEN],
        replaced=counts.results[IngestResult.REPLACED],
        duplicates=counts.results[IngestResult.DUPLICATE],
        quarantined=counts.quarantined,
        left=counts.left,
    )


class _Spool:
    """One pass over the spool: reads, commits, deletes, counts."""

    def __init__(self, history: History, now_s: float, step: Callable[[str], None]) -> None:
        self._history, self._now_s, self._step = history, now_s, step
        self._inserter = Inserter(history.conn)
        self.counts = _Counts()

    def arrivals(self, folder: Path) -> Iterator[_Arrival]:
        """Checked records; a file that holds none is quarantined on the way."""
        for path in _json_files(folder):
            digest = None
            try:
                version, raw = file_version(path, follow=False), read_raw(path)
                digest = sha256(raw).hexdigest()
                rows = rows_of(validate(raw, path.name))
                yield _Arrival(path, version, len(raw), digest, rows)
            except FileNotFoundError:
                continue  # another ingester was quicker
            except UnusableRecordError as error:
                self._quarantine(path, error.why, digest)
            except (OSError, MemoryError):
                self.counts.left += 1  # a disk or a server that does not answer now: it stays
            except Exception as error:  # a fault of ours costs this record, not those behind it
                self._quarantine(path, f"cannot be taken in: {error!r:.200}", digest)

    def commit(self, batch: list[_Arrival]) -> None:
        """One transaction, then the files go. A batch that fails is taken record by record."""
        try:
            results = self._insert(batch)
        except RecordError as error:
            if len(batch) > 1:
                for arrival in batch:
                    self.commit([arrival])
            else:
                self._quarantine(batch[0].path, error.why, batch[0].sha256)
            return
        self._step("committed")
        self.counts.results.update(results)
        for arrival in batch:
            self._step("delete")
            _delete(arrival)

    def _insert(self, batch: list[_Arrival]) -> list[IngestResult]:
        """Raises RecordError where a record cannot be written; nothing of the batch is then."""
        results = []
        try:
            with self._history.transaction():
                for arrival in batch:
                    self._step("insert")
                    try:
                        results.append(self._inserter.put(arrival.rows, self._now_s))
                    except UnicodeDecodeError:
                        raise  # SQLite quotes what is damaged in the file: the record waits
                    except Exception as error:
                        if isinstance(error, sqlite3.Error) and not isinstance(error, REFUSED):
                            raise  # the file's fault or the disk's: the record waits
                        why = f"SQLite refuses it: {error}"
                        raise RecordError(arrival.path.name, why) from error
        except BaseException:
            self._inserter.forget_names()
            raise
        return results

    def _quarantine(self, path: Path, why: str, digest: str | None) -> None:
        """One file that cannot be moved must not hold up the others: it stays, too."""
        try:
            quarantine(self._history, path, why, digest, now_s=self._now_s)
            self.counts.quarantined += 1
        except OSError:
            self.counts.left += 1


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


def _json_files(folder: Path) -> Iterator[Path]:
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
    mine = f"{arrival.path.parent}/taken-{token_hex(8)}.json"
    with suppress(FileNotFoundError):
        os.rename(arrival.path, mine)  # noqa: PTH104 (a Path for each record takes as long)
        if file_version(mine, follow=False) == arrival.version:
            os.unlink(mine)  # noqa: PTH108 (as above)
