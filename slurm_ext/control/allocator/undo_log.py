"""Undo log of the allocator: enough to put each changed job back without this process's memory."""

import logging
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from slurm_ext.control.allocator import gate
from slurm_ext.control.allocator.cgroup.attempts import undone
from slurm_ext.control.allocator.cgroup.cpu import undo
from slurm_ext.control.allocator.cgroup.job_location import (
    JobGoneError,
    JobLocation,
    UntrustedJobDirError,
)
from slurm_ext.control.allocator.cgroup.lent_cpus import LENT, undo_loan
from slurm_ext.control.allocator.jobs import SpooledJob
from slurm_ext.control.loops.loop_state import LoopState
from slurm_ext.node.common import state as node_state
from slurm_ext.node.common.spool_layout import Spool

log = logging.getLogger("dlqueue.control")


class ShareKept(Protocol):
    """A share or a loan: JSON that undoes its changes."""

    @property
    def kept(self) -> Mapping[str, Any]:
        """Empty if there are none."""
        ...


class ChangedJob(Protocol):
    """A job that the divider or the lender may have changed."""

    job: SpooledJob

    @property
    def changed(self) -> bool:
        """True if there is anything to undo."""
        ...

    @property
    def share(self) -> ShareKept:
        """Its share of CPUs, or its loan."""
        ...


def allocator_state(spool: Spool, *, writes: bool = True) -> LoopState:
    """State of the node's allocator, `<spool>/control`: root's own, and no boot outlives it."""
    return LoopState(
        Path(spool.root, "control"),
        "dlqueue control",
        writes=writes,
        durable=False,
        shared=False,
        prepare=spool.prepare,
    )


def keep_changes(state: LoopState, controlled: Mapping[str, ChangedJob]) -> None:
    """Note every job that was changed, or is about to be."""
    jobs = {key: _change(job) for key, job in controlled.items() if job.changed}
    state.keep({"boot_id": node_state.boot_id(), "jobs": jobs})


def undo_left(state: LoopState) -> int:
    """Undo what another process left; returns the number of jobs. Raises InputError, OSError."""
    jobs = state.load(_of_this_boot)
    for entry in jobs.values():
        place = JobLocation(**entry["place"])
        for remove in (gate.remove_gate, gate.remove_lent):  # before: nothing more is begun
            with suppress(JobGoneError, UntrustedJobDirError):
                remove(entry["run_dir"], uid=place.uid)
        with suppress(JobGoneError, OSError):
            undo(place, entry["share"])
        with suppress(JobGoneError, OSError):
            if loan := entry["share"].get(LENT):
                undone(partial(undo_loan, place, loan))
    state.forget()
    return len(jobs)


def _change(controlled: ChangedJob) -> dict[str, Any]:
    job = controlled.job
    place = {"job_id": job.place.job_id, "uid": job.place.uid, "node": job.place.node}
    return {"place": place, "run_dir": job.run_dir, "share": dict(controlled.share.kept)}


def _of_this_boot(kept: dict[str, Any]) -> dict[str, Any]:
    same = bool(kept) and kept["boot_id"] == node_state.boot_id()
    return dict(kept["jobs"]) if same else {}
