"""The node's lender: look, measure, decide by the pure policy, and in mode act lend.

Every job keeps each core that Slurm gave it (policy/allocator/lending.py).
"""

import logging
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from slurm_ext.control.allocator import decision_log
from slurm_ext.control.allocator.cgroup.cores import format_cores
from slurm_ext.control.allocator.cgroup.job_location import JobGoneError, UntrustedJobDirError
from slurm_ext.control.allocator.jobs import RunningJob, SpooledJobs
from slurm_ext.control.allocator.node_loop import NodeLoop, pidfds
from slurm_ext.control.allocator.slurm import SlurmNodeQuery
from slurm_ext.control.lending.core_topology import memory_nodes, siblings
from slurm_ext.control.lending.lending_status import rows
from slurm_ext.control.lending.watched_job import LendingRules, WatchedJob, own_cores_overlap
from slurm_ext.control.loops.control_loop import Events
from slurm_ext.control.loops.loop_state import LoopState
from slurm_ext.core.settings.document import Settings
from slurm_ext.policy.allocator.lending import LendingNode, lend

log = logging.getLogger("dlqueue.control")


class Lender(NodeLoop[WatchedJob]):
    """Lends idle cores of one node to extra loader workers of the jobs on it."""

    def __init__(
        self, settings: Settings, jobs: SpooledJobs, state: LoopState, slurm: SlurmNodeQuery
    ) -> None:
        super().__init__(settings, jobs, state, slurm)
        self.loans: dict[int, str] = {}  # core: borrower
        self._rules = LendingRules(
            window_s=settings["control.window_s"],
            rest_s=settings["control.cooldown_s"],
            floor=settings["control.lender_floor"],
            max_workers=settings["control.max_workers"],
            lends_to=settings["control.lends_to"],
        )
        self._memory_nodes, self._siblings = memory_nodes(), siblings()

    def round(self) -> dict[int, str]:
        """Look and decide, and lend in mode act; returns the loans, {core: borrower}."""
        self._begin()
        running = self._jobs.look()
        watched = self._watch(running)
        self._dismiss(set(watched))
        loans = lend(self._node(running, watched), self.loans)
        self._record(loans)
        self.loans = loans
        if self.acts:
            self._lend()
        self._write_status()
        return loans

    def undo(self) -> int:
        """Take every loan back, those of a killed process too; returns how many jobs."""
        self.loans = {}
        return super().undo()

    @contextmanager
    def events(self) -> Iterator[Events]:
        """A job comes or goes, a training ends, or lent workers have started."""
        keys = self._jobs.keys()
        pids = [pid for job in self.here.values() for pid in job.pids]
        waiting = [job for job in self.here.values() if job.borrowed and self.acts]

        def changed() -> bool:
            return self._jobs.keys() != keys or any(job.has_new_workers() for job in waiting)

        with pidfds(pids) as descriptors:
            yield Events(descriptors=descriptors, changed=changed)

    # -- look --------------------------------------------------------------------------------

    def _watch(self, running: tuple[RunningJob, ...]) -> dict[str, WatchedJob]:
        """The jobs that may lend or borrow, with what they do by now."""
        self.left_alone = {}
        now_s, lenders = time.monotonic(), self._lenders()
        watched = {}
        for seen_job in running:
            key = seen_job.job.key
            job = self.here.get(key) or WatchedJob(seen_job.job, self._keep, self._rules)
            why_not = (
                self._refused.get(key)
                or seen_job.job.why_not
                or self._looked(job, seen_job, now_s, lenders)
            )
            if why_not is None:
                watched[key] = self.here[key] = job
            else:
                self.left_alone[key] = why_not
        return self._apart(watched)

    def _looked(
        self, job: WatchedJob, running: RunningJob, now_s: float, lenders: set[str]
    ) -> str | None:
        """Let it measure; return why it is left alone."""
        if not running.summaries:
            return "no training that the probe knows runs in it"
        try:
            job.look(running, now_s, lends_now=running.job.key in lenders)
        except (TypeError, ValueError, LookupError, ArithmeticError, AttributeError):
            return "its summaries are not what the probe writes"
        return None if job.cores else "Slurm gave it no cores of its own (ConstrainCores)"

    def _apart(self, watched: dict[str, WatchedJob]) -> dict[str, WatchedJob]:
        """Without the jobs that are on the same cores: there the kernel shares them already."""
        twice = own_cores_overlap(list(watched.values()))
        for key, job in list(watched.items()):
            if twice & (job.cores or frozenset()):
                self.left_alone[key] = "it has its cores together with another job"
                del watched[key]
        return watched

    def _lenders(self) -> set[str]:
        """Jobs with a lent core, or a hardware thread beside one."""
        lent = set(self.loans).union(*(self._siblings.get(core, ()) for core in self.loans))
        return {key for key, job in self.here.items() if job.cores and lent & job.cores}

    def _node(
        self, running: tuple[RunningJob, ...], watched: Mapping[str, WatchedJob]
    ) -> LendingNode:
        now_s = time.monotonic()
        return LendingNode(
            jobs=[job.lending_job(now_s) for job in watched.values()],
            free=self._free(running, watched),
            memory_nodes=self._memory_nodes,
            siblings=self._siblings,
        )

    def _free(
        self, running: tuple[RunningJob, ...], watched: Mapping[str, WatchedJob]
    ) -> frozenset[int]:
        """Cores that no job has, where the site lends them and every job's cores are known."""
        if not self.settings["control.may_use_idle_cpus"] or len(watched) < len(running):
            return frozenset()
        node = running[0].job.place.node if running else ""
        view = self._slurm.look(node, frozenset(job.job.key for job in running))
        taken = frozenset().union(*(job.cores or frozenset() for job in watched.values()))
        idle = sorted(frozenset(range(os.cpu_count() or 1)) - taken)
        return frozenset(idle[: view.idle_cpus])

    # -- lend --------------------------------------------------------------------------------

    def _lend(self) -> None:
        """Take back before anything is lent; a job that cannot be changed is left alone."""
        wanted = {key: self._borrowed(key) for key in self.here}
        order = sorted(wanted, key=lambda key: not self.here[key].borrowed - wanted[key])
        for key in order:
            job = self.here[key]
            try:
                job.borrow(wanted[key])
            except JobGoneError:
                job.restore()  # the next look sees it gone
            except (UntrustedJobDirError, OSError) as error:
                self._refused[key] = str(error)
                log.warning("%s is left alone: %s", key, error)
                job.restore()

    def _borrowed(self, key: str) -> frozenset[int]:
        return frozenset(core for core, borrower in self.loans.items() if borrower == key)

    def _record(self, loans: Mapping[int, str]) -> None:
        """Append it to decisions.jsonl and the log, where it differs from the last one."""
        if loans == self.loans:
            return
        by_borrower = {
            key: format_cores({core for core, name in loans.items() if name == key})
            for key in sorted(set(loans.values()))
        }
        if self._state.writes:
            path = self._state.path / "decisions.jsonl"
            decision_log.append(path, acted=self.acts, lent=by_borrower)
        log.info("%s: %s", "lent" if self.acts else "would lend", by_borrower or "nothing")

    def _write_status(self) -> None:
        lent = sum(bool(job.borrowed) for job in self.here.values())
        self._state.write_status(
            {
                "t_s": round(time.time(), 3),
                "pid": os.getpid(),
                "mode": self.settings["control.mode"],
                "acts": self.acts,
                "allocator": "lend",
                "reason": f"{len(self.loans)} cores lent to {lent} jobs"
                if self.loans
                else "nothing is lent",
                "jobs": rows(self.here, self.loans),
                "left_alone": dict(self.left_alone),
            }
        )
