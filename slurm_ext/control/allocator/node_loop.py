"""Changed jobs of a node, for both of its loops: noted, seen off when they leave, undone."""

import os
from collections.abc import Iterator, Sequence, Set
from contextlib import contextmanager, suppress
from typing import Generic, Protocol, TypeVar

from slurm_ext.control.allocator.cgroup.attempts import undone
from slurm_ext.control.allocator.jobs import SpooledJobs
from slurm_ext.control.allocator.slurm import SlurmNodeQuery
from slurm_ext.control.allocator.undo_log import ChangedJob, keep_changes, undo_left
from slurm_ext.control.loops.control_loop import ControlLoop
from slurm_ext.control.loops.loop_state import LoopState
from slurm_ext.core.settings.document import Settings


class RestorableJob(ChangedJob, Protocol):
    """A job that the loop changes."""

    def restore(self) -> bool:
        """Put it back as Slurm left it; False: not all of it, call it again."""
        ...


JobT = TypeVar("JobT", bound=RestorableJob)


class NodeLoop(ControlLoop, Generic[JobT]):
    """One node's jobs by key: those that are here, and those that left and are not whole yet."""

    def __init__(
        self, settings: Settings, jobs: SpooledJobs, state: LoopState, slurm: SlurmNodeQuery
    ) -> None:
        self.settings, self._jobs, self._state, self._slurm = settings, jobs, state, slurm
        self.acts = settings["control.mode"] == "act"
        self.here: dict[str, JobT] = {}
        self.left_alone: dict[str, str] = {}
        self._leaving: dict[str, JobT] = {}
        self._refused: dict[str, str] = {}  # jobs that could not be changed, for good
        self._begun = False

    def undo(self) -> int:
        """Put back every job, those of a killed process too; returns how many were changed."""
        changed = sum(job.changed for job in (*self._leaving.values(), *self.here.values()))
        self._leaving |= self.here
        self.here = {}
        return changed + undo_left(self._state) if undone(self._seen_off) else changed

    def close(self) -> None:
        """Put everything back: the next object knows nothing of what this one changed."""
        self.undo()

    def _begin(self) -> None:
        """Undo what a killed process left, once."""
        if self.acts and not self._begun:
            undo_left(self._state)
        self._begun = True

    def _dismiss(self, staying: Set[str]) -> bool:
        """Put back jobs that have ended or are left alone now; True if there are any."""
        gone = [key for key in self.here if key not in staying]
        for key in gone:
            self._leaving[key] = self.here.pop(key)
        self._see_off()
        keys = self._jobs.keys()
        self._refused = {key: why for key, why in self._refused.items() if key in keys}
        return bool(gone)

    def _seen_off(self) -> bool:
        self._see_off()
        return not self._leaving

    def _see_off(self) -> None:
        """Put back jobs that left; one that came back keeps what it has."""
        if self._leaving:
            self._leaving = {
                key: job
                for key, job in self._leaving.items()
                if key not in self.here and not job.restore()
            }
            self._keep()

    def _keep(self) -> None:
        keep_changes(self._state, {**self._leaving, **self.here})


@contextmanager
def pidfds(pids: Sequence[int]) -> Iterator[list[int]]:
    """Descriptors that become readable when their process ends."""
    descriptors: list[int] = []
    try:
        for pid in pids:
            with suppress(OSError):
                descriptors.append(os.pidfd_open(pid))
        yield descriptors
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
