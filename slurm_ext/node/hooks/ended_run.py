"""The run whose epilog this is: the count that slurmd tells may be the next run's already."""

from __future__ import annotations

import os
import time

from slurm_ext.node.common.spool_layout import key_of, split_key

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from slurm_ext.node.common.spool_layout import Spool


def ended_run_key(
    spool: Spool, job_id: int, restart: int, ask: Callable[[], Mapping[str, Any] | None]
) -> str:
    """The run that ends. For a requeued job slurmd tells the next run's count already.

    A run without a prolog's notes (it was killed, or the run starts within a second of its requeue)
    is known by the controller's facts, which `ask` gets; None if nobody answers. slurmd also runs
    the epilog of a run again, where slurmctld lost its end.
    """
    open_runs = _restarts(spool, job_id, "json", restart)
    if open_runs or not restart:
        return key_of(job_id, max(open_runs, default=0))
    facts = ask()
    done = _restarts(spool, job_id, "done", restart)
    if done and not _another_ended(facts, spool.state_file(key_of(job_id, max(done)), "done")):
        return key_of(job_id, max(done))
    return key_of(job_id, restart - _is_taken_back(facts))


def _another_ended(facts: Mapping[str, Any] | None, done: str) -> bool:
    """True if a run that started since the one with the file `done` is the one that ended.

    In doubt none did: the advisor has Slurm's word on ends that no node tells, and nobody takes
    back a record too many.
    """
    from slurm_ext.node.record.squeue import has_ended_since

    return facts is not None and has_ended_since(facts, int(os.stat(done).st_mtime), time.time())


def _is_taken_back(facts: Mapping[str, Any] | None) -> bool:
    from slurm_ext.node.record.squeue import is_taken_back

    return facts is not None and is_taken_back(facts, time.time())


def _restarts(spool: Spool, job_id: int, kind: str, most: int) -> list[int]:
    keys = [split_key(key) for key in spool.keys(kind)]
    return [restart for number, restart in keys if number == job_id and restart <= most]
