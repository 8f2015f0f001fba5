"""The node's lender: look, measure, decide by the pure policy, and in mode act lend.

Every job keeps each core that Slurm gave it (policy/allocator/lending.py).
"""

import logging
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from slurm_ext.control.allocator import decision_log
from slurm_ext.control.allocator.allocator_round import pidfds
from slurm_ext.control.allocator.cgroup.cores import format_cores, parse_cores
from slurm_ext.control.allocator.cgroup.cpu import UNDO_ATTEMPTS, UNDO_WAIT_S
from slurm_ext.control.allocator.cgroup.job_location import JobGoneError, UntrustedJobDirError
from slurm_ext.control.allocator.jobs import RunningJob, SpooledJobs
from slurm_ext.control.allocator.slurm import SlurmNodeQuery
from slurm_ext.control.allocator.undo_log import keep_changes, undo_left
from slurm_ext.control.lending.lending_status import rows
from slurm_ext.control.lending.watched_job import LendingRules, WatchedJob, own_cores_overlap
from slurm_ext.control.loops.control_loop import ControlLoop, Events
from slurm_ext.control.loops.loop_state import LoopState
from slurm_ext.core.settings.document import Settings
from slurm_ext.policy.allocator.lending import LendingNode, lend

NODES = "/sys/devices/system/node"
log = logging.getLogger("dlqueue.control")


class Lender(ControlLoop):
    """Lends idle cores of one node to extra loader workers of the jobs on it."""

    def __init__(
        self, settings: Settings, jobs: SpooledJobs, state: LoopState, slurm: SlurmNodeQuery
    ) -> None:
        self.settings, self._jobs, self._state, self._slurm = settings, jobs, state, slurm
        self.acts = settings["control.mode"] == "act"
        self.watched: dict[str, WatchedJob] = {}
        self.left_alone: dict[str, str] = {}
        self.loans: dict[int, str] = {}  # core: borrower
        self._leaving: dict[str, WatchedJob] = {}  # ended, and not all of it is undone yet
        self._refused: dict[str, str] = {}  # jobs that could not be changed, for good
        self._rules = LendingRules(
            window_s=settings["control.window_s"],
            rest_s=settings["control.cooldown_s"],
            floor=settings["control.lender_floor"],
            max_workers=settings["control.max_workers"],
            lends_to=settings["control.lends_to"],
        )
        self._memory_nodes = memory_nodes()
        self._begun = False

    def round(self) -> dict[int, str]:
        """Look and decide, and lend in mode act; returns the loans, {core: borrower}."""
        if self.acts and not self._begun:
            undo_left(self._state)
        self._begun = True
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
        changed = sum(job.changed for job in (*self._leaving.values(), *self.watched.values()))
        self._leaving |= self.watched
        self.watched, self.loans = {}, {}
        for _ in range(UNDO_ATTEMPTS):
            self._see_off()
            if not self._leaving:
                return changed + undo_left(self._state)
            time.sleep(UNDO_WAIT_S)
        return changed

    def close(self) -> None:
        """Take everything back: the next object knows no job's loan."""
        self.undo()

    @contextmanager
    def events(self) -> Iterator[Events]:
        """A job comes or goes, a training ends, or lent workers have started."""
        keys = self._jobs.keys()
        pids = [pid for job in self.watched.values() for pid in job.pids]
        waiting = [job for job in self.watched.values() if job.borrowed and self.acts]

        def changed() -> bool:
            return self._jobs.keys() != keys or any(job.has_new_workers() for job in waiting)

        with pidfds(pids) as descriptors:
            yield Events(descriptors=descriptors, changed=changed)

    # -- look --------------------------------------------------------------------------------

    def _watch(self, running: tuple[RunningJob, ...]) -> dict[str, WatchedJob]:
        """The jobs that may lend or borrow, with what they do by now."""
        self.left_alone = {}
        now_s, lenders = time.monotonic(), self._lenders()
        found = {}
        for one in running:
            key = one.job.key
            job = self.watched.get(key) or WatchedJob(one.job, self._keep, self._rules)
            why_not = (
                self._refused.get(key) or one.job.why_not or self._looked(job, one, now_s, lenders)
            )
            if why_not is None:
                found[key] = self.watched[key] = job
            else:
                self.left_alone[key] = why_not
        return self._apart(found)

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

    def _apart(self, found: dict[str, WatchedJob]) -> dict[str, WatchedJob]:
        """Without the jobs that are on the same cores: there the kernel shares them already."""
        twice = own_cores_overlap(list(found.values()))
        for key, job in list(found.items()):
            if twice & (job.cores or frozenset()):
                self.left_alone[key] = "it has its cores together with another job"
                del found[key]
        return found

    def _lenders(self) -> set[str]:
        return {
            key
            for key, job in self.watched.items()
            if job.cores and any(core in job.cores for core in self.loans)
        }

    def _node(
        self, running: tuple[RunningJob, ...], watched: Mapping[str, WatchedJob]
    ) -> LendingNode:
        now_s = time.monotonic()
        return LendingNode(
            jobs=[job.lending_job(now_s) for job in watched.values()],
            free=self._free(running, watched),
            memory_nodes=self._memory_nodes,
        )

    def _free(
        self, running: tuple[RunningJob, ...], watched: Mapping[str, WatchedJob]
    ) -> frozenset[int]:
        """Cores that no job has, where the site lends them and every job's cores are known."""
        if not self.settings["control.may_use_idle_cpus"] or len(watched) < len(running):
            return frozenset()
        node = running[0].job.place.node if running else ""
        view = self._slurm.look(node, frozenset(one.job.key for one in running))
        taken = frozenset().union(*(job.cores or frozenset() for job in watched.values()))
        idle = sorted(frozenset(range(os.cpu_count() or 1)) - taken)
        return frozenset(idle[: view.idle_cpus])

    def _dismiss(self, staying: set[str]) -> None:
        """Take back the loans of jobs that have ended or are left alone now."""
        for key in [key for key in self.watched if key not in staying]:
            self._leaving[key] = self.watched.pop(key)
        self._see_off()
        known = self._jobs.keys()
        self._refused = {key: why for key, why in self._refused.items() if key in known}

    def _see_off(self) -> None:
        """Undo the loans of jobs that have ended; a job that came back keeps its own."""
        if self._leaving:
            self._leaving = {
                key: job
                for key, job in self._leaving.items()
                if key not in self.watched and not job.restore()
            }
            self._keep()

    # -- lend --------------------------------------------------------------------------------

    def _lend(self) -> None:
        """Take back before anything is lent; a job that cannot be changed is left alone."""
        wanted = {key: self._borrowed(key) for key in self.watched}
        order = sorted(wanted, key=lambda key: not self.watched[key].borrowed - wanted[key])
        for key in order:
            job = self.watched[key]
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

    def _keep(self) -> None:
        keep_changes(self._state, {**self._leaving, **self.watched})

    def _write_status(self) -> None:
        lent = sum(bool(job.borrowed) for job in self.watched.values())
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
                "jobs": rows(self.watched, self.loans),
                "left_alone": dict(self.left_alone),
            }
        )


def memory_nodes(sysfs: str = NODES) -> dict[int, int]:
    """The memory node of each core; empty where the kernel does not tell."""
    nodes = {}
    for folder in Path(sysfs).glob("node[0-9]*"):
        with suppress(OSError, ValueError):
            for core in parse_cores((folder / "cpulist").read_text()):
                nodes[core] = int(folder.name.removeprefix("node"))
    return nodes
