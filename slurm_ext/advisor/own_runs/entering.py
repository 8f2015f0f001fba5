"""Runs of `dlqueue run` into the user's own history, each with the submission that it was."""

import errno
import json
import os
import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from slurm_ext.advisor.pipeline.journal import Journal, journals
from slurm_ext.core.job_keys import keys_of
from slurm_ext.core.records import Decision, Mode, Shape, Submission
from slurm_ext.history.ingest.journal import delete_if_recorded, record_journal
from slurm_ext.history.ingest.proposals import Proposal, line_of
from slurm_ext.history.ingest.spool_folder import ingest_folder
from slurm_ext.history.store.store import open_history

REASON = "run by dlqueue run"


def enter(own: Path, documents: Sequence[dict[str, Any]]) -> None:
    """Enter them, each once whatever is killed when. Raises HistoryError."""
    spool, now_s = own / "spool", time.time()
    # First: where it cannot be opened, each attempt would leave a journal and records of its own.
    with open_history(own / "history.db") as history:
        spool.mkdir(mode=0o700, exist_ok=True)
        _write(own, spool, documents)
        for path in journals(own / "journal"):
            record_journal(history, path, now_s=now_s)
            delete_if_recorded(history, path)
        ingest_folder(history, spool, now_s=now_s)


def last_entered(history: str) -> int:
    """The highest number of a run in a history, of whichever release; 0: none. Raises OSError."""
    try:
        with closing(sqlite3.connect(history)) as db:
            (highest,) = db.execute("SELECT max(job_id) FROM runs").fetchone()
    except sqlite3.Error as error:  # with a number of its own choice a run would replace another
        raise OSError(errno.EIO, str(error), history) from None
    return highest or 0


def _write(own: Path, spool: Path, documents: Sequence[dict[str, Any]]) -> None:
    journal = Journal(own / "journal")
    for document in documents:
        record = document["record"]
        journal.append(line_of(_proposal(document["command"], record)))
        (spool / f"{record['record_id'].replace('/', '_')}.json").write_text(json.dumps(record))
    journal.close()


def _proposal(command: str, record: dict[str, Any]) -> Proposal:
    identity, cpus = record["identity"], record["allocation"]["cpus"]
    shape = Shape(cpus_per_task=cpus, num_workers=0)
    return Proposal(
        token=record["decision"],
        decided_s=record["times"]["start_s"],
        mode=Mode.OFF,
        user=identity["user"],
        uid=os.geteuid(),
        job_name=identity["job_name"],
        decision=Decision(action="leave", reason=REASON, before=shape, after=shape),
        keys=keys_of(submission(command, identity, cpus)),
    )


def submission(command: str, identity: dict[str, Any], cpus: int) -> Submission:
    """Return the command as the only line of a batch script, which `dlqueue predict` knows."""
    return Submission(
        name=identity["job_name"],
        user_name=identity["user"],
        user_id=os.geteuid(),
        work_dir=identity["work_dir"],
        script=f"#!/bin/sh\n{command}\n",
        argv=(identity["job_name"],),
        cpus_per_task=cpus,
    )
