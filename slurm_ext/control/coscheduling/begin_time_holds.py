"""Hold waiting jobs back by their StartTime, for a limited time, and start them.

A job that should not start yet may start in `sharing.lease_s` seconds, and the hold is renewed
while that is so. A process that dies leaves no job held: Slurm itself ends each hold. To release a
job its StartTime becomes now, and where there are several nodes it is bound to the chosen one.
Nothing else is ever changed, and nothing at all of a job that was never held back and may start
anywhere. What is asked for is on the disk before. Neither a clock of Slurm's nor the job's start
ends a bond to a node, and Slurm refuses to unbind a job that runs: the bond is remembered until it
is undone, or until the job has ended without a requeue.
"""

import logging
from collections.abc import Iterable, Sequence, Set
from dataclasses import replace

from slurm_ext.control.coscheduling.jobs import BeginTimeHold, id_of, name_of
from slurm_ext.control.coscheduling.pair_memory import PairMemory
from slurm_ext.control.loops.loop_state import LoopState
from slurm_ext.core.errors import SlurmError
from slurm_ext.core.settings.document import Settings
from slurm_ext.policy.colocation.co_scheduling import PlacementAction
from slurm_ext.slurm.client import SlurmClient
from slurm_ext.slurm.records import JobInfo

log = logging.getLogger("dlqueue.pairing")


class BeginTimeHolds:
    """Of all jobs; they are kept in `memory`."""

    def __init__(
        self, settings: Settings, client: SlurmClient, state: LoopState, memory: PairMemory
    ) -> None:
        self._client, self._state, self._memory = client, state, memory
        self._lease_s = int(settings["sharing.lease_s"])
        self._most_wait_s = float(settings["sharing.most_wait_s"])
        self._last_s: float | None = None

    def overdue(self, job: str) -> bool:
        """True if it was held back for as long as the site allows."""
        hold = self._memory.holds.get(job)
        return hold is not None and hold.put_off_s >= self._most_wait_s

    def charge(self, steps: Sequence[PlacementAction], now_s: float) -> None:
        """Add the time since the last round to jobs that had room, or that others passed."""
        passed_s, self._last_s = now_s - (self._last_s or now_s), now_s
        for step in steps:
            hold = self._memory.holds.get(step.job)
            if hold is not None and not step.free and step.room:
                put_off_s = hold.put_off_s + passed_s
                self._memory.holds[step.job] = replace(hold, put_off_s=put_off_s)

    def carry_out(
        self, steps: Sequence[PlacementAction], now_s: float, *, bind: bool
    ) -> dict[str, tuple[float, str | None]]:
        """Put off and free; of those that can start now, when and where.

        `bind`: to the chosen node, for there are others.
        """
        due = [step.job for step in steps if not step.free and self._due(step.job, now_s)]
        bound = [job for job in due if self._node(job) is not None]
        for job in due:
            self._note(job, now_s + self._lease_s, self._node(job))
        wanted = {s.job: s.place if bind else None for s in steps if s.free}
        changed = {job: n for job, n in wanted.items() if self._changes(job, n, now_s)}
        before = {job: self._memory.holds.get(job) for job in changed}
        for job, node in changed.items():
            self._note(job, now_s, node or self._node(job))
        self._state.keep(self._memory.as_json())
        self._delay(due, bound)
        at_once = self._free_at_once([j for j, n in changed.items() if _only_held(before[j], n)])
        rest = {job: node for job, node in changed.items() if job not in at_once}
        refused = {job for job, node in rest.items() if not self._free(job, node, before[job])}
        return {s.job: (now_s, s.place) for s in steps if s.start and s.job not in refused}

    def forget(self, alive: Iterable[JobInfo], waiting: Set[str]) -> None:
        """Drop the holds of jobs that are not among the `waiting`, and their bonds to nodes."""
        jobs = {job.job_id: job for job in alive}
        holds = self._memory.holds
        self._memory.holds = {
            name: hold
            for name, hold in holds.items()
            if name in waiting or self._stays_bound(jobs.get(id_of(name)), hold)
        }

    def end(self) -> int:
        """End all holds now; returns how many. Raises SlurmError where a job still has its own."""
        before = len(self._memory.holds)
        if before:
            alive = {job.job_id: job for job in self._client.jobs() if not job.ended}
            pending = {job_id for job_id, job in alive.items() if job.state == "PENDING"}
            names = {name_of(alive[job_id]) for job_id in pending}
            for job, hold in list(self._memory.holds.items()):
                if job in names and self.free(job, hold.node):
                    del self._memory.holds[job]
            self.forget(alive.values(), names)
            self._state.keep(self._memory.as_json())
            if any(id_of(job) in pending for job in self._memory.holds):
                raise SlurmError("pairing: undo", None, "not every job could be freed")
        return before - len(self._memory.holds)

    def free(self, job: str, node: str | None) -> bool:
        """Have the job as its user wrote it; `node`: bound to. False: Slurm refused."""
        if node is not None and not self._unbind(job):
            return False
        try:
            self._client.delay([id_of(job)], 0)
        except SlurmError as error:  # it runs or is gone; else Slurm's clock frees it
            log.info("job %s: %s", job, error)
            return False
        return True

    def _stays_bound(self, job: JobInfo | None, hold: BeginTimeHold) -> bool:
        """True if its node is to be undone later: it runs and may be requeued, or Slurm refused."""
        if job is None or hold.node is None:
            return False
        if job.state != "PENDING":
            return True
        return job.required_nodes == hold.node and not self._unbind(name_of(job))

    def _unbind(self, job: str) -> bool:
        try:
            self._client.bind(id_of(job), None)
        except SlurmError as error:  # it may have started meanwhile
            log.info("job %s: %s", job, error)
            return False
        return True

    def _note(self, job: str, until_s: float, node: str | None = None) -> None:
        old = self._memory.holds.get(job) or BeginTimeHold(until_s=until_s)
        self._memory.holds[job] = replace(old, until_s=until_s, node=node)

    def _due(self, job: str, now_s: float) -> bool:
        hold = self._memory.holds.get(job)
        bound = hold is not None and hold.node is not None
        return hold is None or bound or hold.until_s - now_s < self._lease_s / 2

    def _node(self, job: str) -> str | None:
        hold = self._memory.holds.get(job)
        return None if hold is None else hold.node

    def _changes(self, job: str, node: str | None, now_s: float) -> bool:
        """True if Slurm does not know yet that the job may start on that node."""
        hold = self._memory.holds.get(job)
        waits = hold is not None and hold.until_s > now_s
        return waits or node != self._node(job)

    def _delay(self, jobs: Sequence[str], bound: Sequence[str]) -> None:
        if jobs:
            try:
                self._client.delay([id_of(job) for job in jobs], self._lease_s)
            except SlurmError as error:
                log.warning("not every job could be put off: %s", error)
        unbound = [job for job in bound if self._unbind(job)]
        for job in unbound:
            self._memory.holds[job] = replace(self._memory.holds[job], node=None)
        if unbound:
            self._state.keep(self._memory.as_json())

    def _free_at_once(self, jobs: Sequence[str]) -> frozenset[str]:
        """All in one command; none where it fails for one of them."""
        if len(jobs) < 2:
            return frozenset()
        try:
            self._client.delay([id_of(job) for job in jobs], 0)
        except SlurmError:
            return frozenset()
        return frozenset(jobs)

    def _free(self, job: str, node: str | None, before: BeginTimeHold | None) -> bool:
        """False: it has started or ended meanwhile, or Slurm refused; the next round tells."""
        bound = before.node if before else None
        try:
            if node != bound:
                self._client.bind(id_of(job), node)
                bound = node
            if before is not None:
                self._client.delay([id_of(job)], 0)
        except SlurmError as error:
            log.info("job %s: %s", job, error)
            self._put_back(job, before, bound)
            return False
        self._note(job, self._memory.holds[job].until_s, node)
        return True

    def _put_back(self, job: str, before: BeginTimeHold | None, bound: str | None) -> None:
        if before is None:
            self._memory.holds.pop(job, None)
        else:
            self._memory.holds[job] = replace(before, node=bound)


def _only_held(before: BeginTimeHold | None, node: str | None) -> bool:
    """True if only its StartTime changes, not its node."""
    return before is not None and before.node == node
