"""Owners of jobs, from Slurm or the history: nobody files a record under another's job."""

import re
import shutil
import subprocess
import threading
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from slurm_ext.core.errors import MissingError, RecordError
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


TIMEOUT_S = 10.0


MAX_CREDENTIAL = 16 * 1024


_SAID = re.compile(rb"UID:\s+(?:\S+ \()?([0-9]+)\)?\s*\n\n(.*)", re.DOTALL)


def signed_by(credential: str, munge_socket: str) -> tuple[int, bytes]:
    """The uid and the payload of a credential that has not been seen before.

    Raises RecordError where munge refuses it (forged, expired, replayed), MissingError where
    there is no unmunge.
    """
    command = [_unmunge(), "--keys=UID", *([f"--socket={munge_socket}"] if munge_socket else [])]
    try:
        done = _run(command, credential.encode("ascii", "replace")[:MAX_CREDENTIAL])
    except subprocess.TimeoutExpired:
        raise RecordError("munge", f"did not answer within {TIMEOUT_S:.0f} s") from None
    found = _SAID.fullmatch(done.stdout)
    if done.returncode != 0 or found is None:
        raise RecordError("munge", done.stderr.decode("utf-8", "replace").strip()[:200])
    return int(found[1]), found[2]


def _run(command: Sequence[str], said: bytes) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(command, input=said, capture_output=True, timeout=TIMEOUT_S, check=False)


def _unmunge() -> str:
    found = shutil.which("unmunge") or shutil.which("unmunge", path="/usr/bin:/usr/local/bin")
    if found is None:
        raise MissingError("unmunge is not installed", "install munge, or use the folder transport")
    return found
