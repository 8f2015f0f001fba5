"""Runs whose end nobody knew get the word of slurmdbd, where squeue does not list their end.

A node that reaches no controller cannot tell how a job ended that Slurm or its user ended, and
squeue forgets a job after MinJobAge. Without slurmdbd such an end stays UNKNOWN.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from slurm_ext.advisor.history_writer.slurm_record import outcome_of
from slurm_ext.core.records import Outcome
from slurm_ext.history.ingest.unknown_ends import UnknownEnd, rows_since, tell_ends, unknown_ends
from slurm_ext.history.store.store import History
from slurm_ext.slurm import AccountedEnd, SlurmClient

ASK_EVERY_S = 60.0
MOST = 100  # jobs in one question
MOST_SKIPPED = 15  # rounds after questions that brought nothing
KEEP_ASKING_S = 86400.0  # slurmctld keeps what it has to tell while slurmdbd is away
_CLOCKS_S = 300.0  # munge refuses messages between clocks that differ more


class AccountedEnds:
    """Remembers whose end is unknown, and asks for all of them in turn."""

    def __init__(self, client: SlurmClient) -> None:
        self._client = client
        self._first: int | None = None  # row of the history that was not looked at yet
        self._waiting: dict[int, UnknownEnd] = {}
        self._skip, self._skipped = 0, 0

    def ask(self, history: History, now_s: float) -> None:
        """Ask once, unless that brought nothing lately. Raises SlurmError, HistoryError."""
        if self._find(history, now_s):
            self._skip = 0
        if not self._waiting or self._skipped < self._skip:
            self._skipped += 1
            return
        self._skipped, self._skip = 0, min(MOST_SKIPPED, 2 * self._skip + 1)
        if self._tell(history, self._next(), now_s):
            self._skip = 0

    def _find(self, history: History, now_s: float) -> bool:
        """Look at new rows, and forget old ones; True if a new one's end is unknown."""
        since_s = now_s - KEEP_ASKING_S
        first, newest = rows_since(history, since_s)
        rows = unknown_ends(history, first if self._first is None else self._first, since_s)
        self._first, before = newest, set(self._waiting)
        self._waiting |= {row.run: row for row in rows}
        self._waiting = {n: row for n, row in self._waiting.items() if row.end_s >= since_s}
        return not before.issuperset(self._waiting)

    def _next(self) -> list[UnknownEnd]:
        """Those whose end squeue does not list; they come last the next time.

        A slurmctld that was killed lists as running what its nodes have told it the end of.
        """
        listed = {(job.job_id, job.restarts) for job in self._client.jobs() if job.ended}
        gone = [row for row in self._waiting.values() if (row.job_id, row.restart) not in listed]
        for row in gone[:MOST]:
            self._waiting[row.run] = self._waiting.pop(row.run)
        return gone[:MOST]

    def _tell(self, history: History, rows: Sequence[UnknownEnd], now_s: float) -> bool:
        """Enter the ends that slurmdbd has of these; True if it has any."""
        if not rows:
            return False
        job_ids = sorted({row.job_id for row in rows})
        since_s = min([now_s, *(row.start_s for row in rows)]) - _CLOCKS_S
        states = dict(states_of(rows, self._client.ends(job_ids, since_s)))
        tell_ends(history, states.items())
        for run in states:
            del self._waiting[run]
        return bool(states)


def states_of(
    rows: Iterable[UnknownEnd], ends: Iterable[AccountedEnd]
) -> Iterator[tuple[int, str]]:
    """Row and state of each run that slurmdbd has the end of."""
    by_job: dict[int, list[AccountedEnd]] = {}
    for end in ends:
        by_job.setdefault(end.job_id, []).append(end)
    for row in rows:
        state = _state(row, by_job)
        if state != Outcome.UNKNOWN:
            yield row.run, state


def _state(row: UnknownEnd, by_job: Mapping[int, Sequence[AccountedEnd]]) -> str:
    """Of the start that this run shares most time with: sacct counts no restarts before 23.11."""
    own = [end for end in by_job.get(row.job_id, ()) if row.uid in (None, end.user_id)]
    best = max(own, key=lambda end: _shared_s(row, end), default=None)
    if best is None or _shared_s(row, best) < -_CLOCKS_S:
        return Outcome.UNKNOWN
    return outcome_of(best.state)


def _shared_s(row: UnknownEnd, end: AccountedEnd) -> float:
    """Seconds that both cover; below zero where one ended before the other began."""
    over_s = row.end_s if end.end_time_s is None else min(row.end_s, end.end_time_s)
    return over_s - max(row.start_s, end.start_time_s)
