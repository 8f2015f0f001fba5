"""Records that a job's owner sends: only what was measured is the owner's word.

Who the job is, where and when it ran, how it ended and which decision it had are Slurm's words and
the ledger's. What is not known to Slurm any more is refused.
"""

import threading
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from slurm_ext.advisor.history_writer.slurm_record import (
    identity_of,
    name_of,
    outcome_of,
    submitted,
    times_of,
)
from slurm_ext.core.errors import RecordError
from slurm_ext.history.ingest.job_decisions import token_of
from slurm_ext.history.store.reading import connect
from slurm_ext.slurm import JobInfo, SlurmClient, hostlist

FRESH_S = 2.0  # how old an answer of Slurm may be; a user must not have it asked without end
MAX_WAITING_BYTES = 32 << 20  # of one user's records in the spool, should the history not take them


class ForeignRecordError(RecordError):
    """The record is refused for good: sending it again changes nothing."""


class JobOwners:
    """Asked by the receiving threads, one at a time."""

    def __init__(self, client: SlurmClient, state_dir: Path) -> None:
        self._client, self._state_dir = client, state_dir
        self._lock = threading.Lock()
        self._jobs: dict[int, JobInfo] = {}
        self._asked_s = float("-inf")
        self._waiting: dict[int, dict[Path, int]] = {}  # uid → files and their bytes

    def as_slurm_says(self, record: dict[str, Any], uid: int, cluster: str) -> dict[str, Any]:
        """The record of `uid`'s job with Slurm's word for everything that it knows.

        Raises ForeignRecordError where it is no record of an ended run of the user's, RecordError,
        SlurmError or HistoryError where it may be one later.
        """
        said, name = record["identity"], str(record["record_id"])
        job = self._ended_job(said.get("job_id"), uid, name)
        node = str(said.get("node"))
        if (said.get("restart"), said.get("cluster")) != (job.restarts, cluster):
            raise ForeignRecordError(name, "Slurm does not know this run of the job")
        if node not in hostlist.expand(job.nodes):
            raise ForeignRecordError(name, f"job {job.job_id} was not on node {node!r:.80}")
        identity = identity_of(job, cluster, node)
        if name != name_of(identity):
            raise ForeignRecordError(name, "is not the name of this run's record")
        token = self._token(job, record.get("decision"))
        own = {"identity": identity, "times": times_of(job), "decision": token}
        return {**record, **own, "outcome": _outcome(job, record.get("outcome"))}

    def make_room(self, uid: int, file: Path, size_bytes: int) -> None:
        """Count what the user's records take in the spool. Raises RecordError beyond the bound."""
        with self._lock:
            files = {path: size for path, size in self._of(uid).items() if path.exists()}
            files[file] = size_bytes
            if sum(files.values()) > MAX_WAITING_BYTES:
                raise RecordError(file.stem, f"uid {uid} has too many records waiting")
            self._waiting[uid] = files

    def _of(self, uid: int) -> Mapping[Path, int]:
        return self._waiting.get(uid, {})

    def _ended_job(self, job_id: object, uid: int, name: str) -> JobInfo:
        job = self._job(job_id) if type(job_id) is int else None
        if job is None:
            raise ForeignRecordError(name, f"Slurm does not know job {job_id!r:.40}")
        if job.user_id != uid:
            raise ForeignRecordError(name, f"job {job_id} is uid {job.user_id}'s, not uid {uid}'s")
        if not _is_over(job):
            raise RecordError(name, f"job {job_id} has not ended")
        return job

    def _job(self, job_id: int) -> JobInfo | None:
        with self._lock:
            job = self._jobs.get(job_id)
            stale = time.monotonic() - self._asked_s > FRESH_S
            if stale and (job is None or not _is_over(job)):
                self._jobs = {job.job_id: job for job in self._client.jobs()}
                self._asked_s = time.monotonic()
            return self._jobs.get(job_id)

    def _token(self, job: JobInfo, claimed: object) -> str | None:
        """The decision that the ledger has for the job, or that the record picks among possible.

        Possible is one of the same user, job name and moment, as the reconciler ties them.
        """
        history = self._state_dir / "history.db"
        if not history.exists():
            return None
        token = claimed if isinstance(claimed, str) else ""
        with closing(connect(history)) as conn:
            return token_of(conn, history, submitted(job), token)


def _is_over(job: JobInfo) -> bool:
    """True if its processes ended; its epilog may still run."""
    return job.ended or job.state == "COMPLETING"


def _outcome(job: JobInfo, said: object) -> dict[str, Any]:
    """Slurm's word for the end; while the epilog runs, the record's, which Slurm's corrects later.

    A node's own record of the run, by root, replaces this one.
    """
    if not job.ended:
        state = str(said.get("state")) if isinstance(said, dict) else ""
        job = replace(job, state=state, exit_code=None, exit_signal=None)
    exits = {"exit_code": job.exit_code, "signal": job.exit_signal}
    return {"state": outcome_of(job.state), **exits, "source": "node"}
