"""The advisor's journal into the ledger: each whole line once, whatever is killed when.

How far a journal was read stands in the database, in the same transaction as what was read.
A journal's name is never used again: the server names each after its start, or one higher than all
that are there.
"""

from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from slurm_ext.core.errors import RecordError
from slurm_ext.history.ingest.decisions import record_proposals
from slurm_ext.history.ingest.proposals import proposal_of
from slurm_ext.history.ingest.quarantine import note_quarantined, remove_aside
from slurm_ext.history.store.reading import explaining
from slurm_ext.history.store.store import History

_CHUNK_BYTES = 4 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalReport:
    """Counts of one pass over a journal."""

    new: int = 0
    bad_lines: int = 0


def record_journal(
    history: History, journal: Path, *, now_s: float, rest: bool = False
) -> JournalReport:
    """Enter what was appended to `journal` since the last time; half a line waits for its rest.

    A line that is no proposal is noted in set_aside and passed; so is half a line at the end where
    nobody will complete it (`rest`). Raises HistoryError, or OSError where the journal cannot be
    read.
    """
    new = bad = 0
    start = offset(history, journal.name)
    if start > journal.stat().st_size:  # somebody emptied it; known proposals enter no second time
        start = 0
        record_proposals(history, [], journal.name, start)
    while chunk := whole_lines(journal, start, rest=rest):
        proposals = []
        for line in chunk.splitlines(keepends=True):
            try:
                proposals.append(proposal_of(line))
            except RecordError as error:
                bad += 1
                note_line(history, journal, line, error, now_s)
        start += len(chunk)
        new += record_proposals(history, proposals, journal.name, start)
    return JournalReport(new=new, bad_lines=bad)


def offset(history: History, name: str) -> int:
    """Bytes of the journal that are in the ledger."""
    with explaining(history.path):
        row = history.conn.execute("SELECT offset FROM journals WHERE name = ?", (name,)).fetchone()
    return row[0] if row else 0


def delete_if_recorded(history: History, journal: Path) -> bool:
    """Delete a journal that the server has left behind, if all of it is in; whether it is gone."""
    if journal.stat().st_size > offset(history, journal.name):
        return False
    journal.unlink()
    with history.transaction() as conn:
        conn.execute("DELETE FROM journals WHERE name = ?", (journal.name,))
    return True


def whole_lines(journal: Path, start: int, *, rest: bool = False) -> bytes:
    """The next whole lines, at most a chunk; a line longer than any proposal is passed as it is.

    `rest`: half a line at the end too, for nobody will complete it.
    """
    with journal.open("rb") as stream:
        stream.seek(start)
        chunk = stream.read(_CHUNK_BYTES)
    end = chunk.rfind(b"\n") + 1
    whole = (end == 0 and len(chunk) == _CHUNK_BYTES) or (rest and len(chunk) < _CHUNK_BYTES)
    return chunk if whole else chunk[:end]


def note_line(
    history: History, journal: Path, line: bytes, error: RecordError, now_s: float
) -> None:
    """Say in set_aside why a line is not in the history; said again, it changes nothing."""
    digest = sha256(line).hexdigest()
    with history.transaction() as conn:
        name = f"{journal.name}-line-{digest[:16]}"
        gone = note_quarantined(conn, name, str(journal), str(error), digest, len(line), now_s)
    remove_aside(gone, history.path.parent / "aside")
