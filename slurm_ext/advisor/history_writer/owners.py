"""Owners of jobs, from Slurm or the history: nobody files a record under another's job."""

import threading
import time
from contextlib import closing
from pathlib import Path

from slurm_ext.core.errors import RecordError
from slurm_ext.history.store.reading import connect
from slurm_ext.history.views.lookup import owner_of
from slurm_ext.slurm import SlurmClient

FRESH_S = 2.0  # how old an answer of Slurm may be; a user must not have it asked without end


class ForeignRecordError(RecordError):
    """The record is refused for good: sending it again changes nothing."""


class JobOwners:
    """Asked by the receiving threads, one at a time."""

    def __init__(self, client: SlurmClient, history: Path) -> None:
        self._client, self._history = client, history
        self._lock = threading.Lock()
        self._uids: dict[int, int] = {}
        self._asked_s = float("-inf")

    def check(self, job_id: object, uid: int, name: str) -> None:
        """Check that the job is this user's.

        Raises ForeignRecordError if it is not; SlurmError or HistoryError: ask later.
        """
        owner = self._owner(job_id) if type(job_id) is int else None
        if owner is None:
            raise ForeignRecordError(
                name, f"neither Slurm nor the history knows job {job_id!r:.40}"
            )
        if owner != uid:
            raise ForeignRecordError(name, f"job {job_id} is uid {owner}'s, not uid {uid}'s")

    def _owner(self, job_id: int) -> int | None:
        with self._lock:
            if job_id not in self._uids and time.monotonic() - self._asked_s > FRESH_S:
                self._uids = {job.job_id: job.user_id for job in self._client.jobs()}
                self._asked_s = time.monotonic()
            owner = self._uids.get(job_id)
        return self._recorded(job_id) if owner is None else owner

    def _recorded(self, job_id: int) -> int | None:
        if not self._history.exists():
            return None
        with closing(connect(self._history)) as conn:
            return owner_of(conn, self._history, job_id)
