"""Import earlier jobs from a site's accounting into history.db, each run once.

Resumable without a bookmark: a run's record_id follows from the job, so an import that starts
again after a crash finds the runs that are there already, and counts them as known. A batch is one
short transaction, so the history writer never waits long.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import tzinfo
from itertools import islice

from slurm_ext.core.errors import InputError, RecordError
from slurm_ext.history.imports import sacct as imports_sacct
from slurm_ext.history.ingest.insert import REFUSED, SAME_END_S, IngestResult, Inserter
from slurm_ext.history.ingest.rows import RecordRows, rows_of
from slurm_ext.history.store.names import SACCT
from slurm_ext.history.store.store import History
from slurm_ext.node.record.reader import check

BATCH = 1000
MOST_LISTED = 20  # bad lines that are listed one by one
BY_DLQUEUE, TOO_OLD = "recorded by dlqueue itself", "older than history.retention_days"
BAD = "lines that are not sacct's"
_OWN = "SELECT 1 FROM runs WHERE job_id = ? AND cluster = ? AND source <> ? AND abs(end_s - ?) < ?"

Line = tuple[int, Sequence[str]]  # its number in the file, its fields; none: it is too long
Job = tuple[int, list[RecordRows]]  # its line's number, its runs


@dataclass(slots=True)
class ImportCounts:
    """Counts of an import: jobs by what became of them, runs (a job and node each) that came in."""

    jobs: int = 0
    runs: int = 0
    known: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    notes: Counter[str] = field(default_factory=Counter)
    bad: list[str] = field(default_factory=list)  # the first, each with its line

    def add(self, other: "ImportCounts") -> None:
        """Add the counts of another part of the same import."""
        self.jobs, self.runs = self.jobs + other.jobs, self.runs + other.runs
        self.known += other.known
        self.skipped.update(other.skipped)
        self.notes.update(other.notes)
        self.bad = [*self.bad, *other.bad][:MOST_LISTED]

    def refuse(self, number: int, why: str) -> None:
        """Count a line that is not sacct's; keep the first of them for the user."""
        self.skipped[BAD] += 1
        if len(self.bad) < MOST_LISTED:
            self.bad.append(f"line {number}: {why}")


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountingSource:
    """Facts about the site that the lines lack."""

    cluster: str
    names: imports_sacct.Names
    zone: tzinfo | None = None  # None: this machine's
    oldest_s: float = 0.0  # runs that ended before are not taken: retention would remove them


def columns_of(source: str, header: Sequence[str]) -> tuple[str, ...]:
    """The names of a header line. Raises InputError where one that is needed lacks."""
    names = tuple(name.strip() for name in header)
    missing = [name for name in imports_sacct.NEEDED if name not in names]
    if missing:
        wanted = f"sacct -aXP -o {','.join(imports_sacct.COLUMNS)}"
        raise InputError(
            source, f"has no column {', '.join(missing)}; write it by: {wanted}", line=1
        )
    return names


def import_lines(
    history: History,
    columns: Sequence[str],
    lines: Iterable[Line],
    site: AccountingSource,
    *,
    now_s: float,
    on_batch: Callable[[int, ImportCounts], None] = lambda *_: None,
) -> ImportCounts:
    """Import all lines; calls `on_batch` after each committed batch. Raises HistoryError."""
    tally, waiting = ImportCounts(), iter(lines)
    inserter = Inserter(history.conn)
    while batch := list(islice(waiting, BATCH)):
        for jobs in _bounded(_jobs(columns, batch, site, tally)):
            with history.transaction():
                for number, runs in jobs:
                    _put_whole(history, inserter, number, runs, tally, now_s)
        on_batch(batch[-1][0], tally)
    return tally


def _bounded(jobs: Iterator[Job]) -> Iterator[list[Job]]:
    """Jobs together as long as they have fewer than BATCH runs: a job has one a node."""
    part: list[Job] = []
    size = 0
    for job in jobs:
        part.append(job)
        size += len(job[1])
        if size >= BATCH:
            yield part
            part, size = [], 0
    if part:
        yield part


def _jobs(
    columns: Sequence[str], batch: Sequence[Line], site: AccountingSource, tally: ImportCounts
) -> Iterator[Job]:
    """Line and runs of each ended job; all other lines are counted with their reason."""
    for number, fields in batch:
        if not fields:
            tally.refuse(number, "is too long")
            continue
        if len(fields) != len(columns):
            tally.refuse(number, f"{len(fields)} fields where the header has {len(columns)}")
            continue
        line = dict(zip(columns, map(_readable, fields), strict=True))
        try:
            records, note = imports_sacct.records_of(
                line, cluster=site.cluster, zone=site.zone, names=site.names
            )
            for record in records:
                check(record)
            runs = [rows_of(record) for record in records]
            if runs[0].run.end_s < site.oldest_s:
                raise imports_sacct.NotTakenError(TOO_OLD)
        except imports_sacct.NotTakenError as reason:
            tally.skipped[str(reason)] += 1
        except (ValueError, OverflowError, RecordError) as error:
            tally.refuse(number, str(error))
        else:
            tally.notes.update([note] if note else [])
            yield number, runs


def _readable(text: str) -> str:
    """Bytes that are not UTF-8 as escapes: SQLite takes no half characters."""
    return text.encode("utf-8", "backslashreplace").decode()


def _put_whole(
    history: History,
    inserter: Inserter,
    number: int,
    runs: list[RecordRows],
    tally: ImportCounts,
    now_s: float,
) -> None:
    """All runs of a line's job, or none where SQLite refuses a value: the batch goes on."""
    history.conn.execute("SAVEPOINT job")
    try:
        _put(history, inserter, runs, tally, now_s)
    except REFUSED as error:
        history.conn.execute("ROLLBACK TO job")
        inserter.forget_names()
        tally.refuse(number, f"SQLite refuses it: {error}")
    history.conn.execute("RELEASE job")


def _put(
    history: History, inserter: Inserter, runs: list[RecordRows], tally: ImportCounts, now_s: float
) -> None:
    first = runs[0].run
    same = (first.job_id, first.cluster, SACCT, first.end_s, SAME_END_S)
    if history.conn.execute(_OWN, same).fetchone():
        tally.skipped[BY_DLQUEUE] += 1
        return
    fates = Counter(inserter.put(run, now_s) for run in runs)
    tally.runs += fates[IngestResult.TAKEN]
    if fates[IngestResult.TAKEN]:
        tally.jobs += 1
    else:
        tally.known += 1
