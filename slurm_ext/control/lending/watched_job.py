"""One training as lender and borrower: its measurements, and the loan that it has."""

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from slurm_ext.control.allocator import gate
from slurm_ext.control.allocator.cgroup.job_location import JobGoneError, UntrustedJobDirError
from slurm_ext.control.allocator.cgroup.lent_cpus import LENT, LentCpus
from slurm_ext.control.allocator.cgroup.lent_threads import lent_workers
from slurm_ext.control.allocator.jobs import RunningJob, SpooledJob
from slurm_ext.control.lending.cpu_use import CpuUse, CpuUseMeter
from slurm_ext.control.lending.loop_progress import LoopProgress, ProgressMeter
from slurm_ext.policy.allocator.disturbance import LoopWindow, disturbance, usual
from slurm_ext.policy.allocator.lending import USED, LendingJob

LEAST_LOOK_S = 0.4  # between two measurements of CPU time: ticks and batches blur shorter ones
PATIENCE_S = 15.0  # for lent workers to start, before the loan goes to somebody else
log = logging.getLogger("dlqueue.control")


@dataclass(frozen=True, slots=True, kw_only=True)
class LendingRules:
    """The site's settings for lending."""

    window_s: float  # of one measurement of rate and wait
    rest_s: float  # after a disturbance, without lending
    floor: float  # part of its earlier rate that a lender keeps
    max_workers: int  # of one process, lent ones included
    lends_to: str  # user, account or all


@dataclass(frozen=True, slots=True, kw_only=True)
class LentShare:
    """A loan for the undo log (undo_log.py)."""

    kept: dict[str, object]


class WatchedJob:
    """Measurements and loan of one job."""

    def __init__(self, job: SpooledJob, note: Callable[[], None], rules: LendingRules) -> None:
        self.job, self._rules = job, rules
        self._cpus = LentCpus(job.place, note=note)
        self._note = note
        self._own_meter, self._lent_meter = CpuUseMeter(), CpuUseMeter()
        self._progress = ProgressMeter(rules.window_s)
        self._looked_s = float("-inf")
        self._usual: LoopWindow | None = None
        self._rests_until_s = float("-inf")  # lends nothing
        self._unanswered_s: float | None = None  # since when lent workers are missing
        self._refused_until_s = float("-inf")  # borrows nothing
        self._word: tuple[bool, bool] = (False, False)
        self.pids: tuple[int, ...] = ()  # of its trainings
        self.workers: tuple[int, ...] = ()  # lent
        self.cores: frozenset[int] | None = None  # that Slurm gave it
        self.use: CpuUse | None = None
        self.lent_use: CpuUse | None = None
        self.borrowed: frozenset[int] = frozenset()
        self.disturbed_by: str | None = None

    @property
    def changed(self) -> bool:
        """True if there is anything to undo."""
        return bool(self.borrowed or self._cpus.kept)

    @property
    def share(self) -> LentShare:
        """The loan as the undo log keeps it."""
        return LentShare(kept={LENT: self._cpus.kept} if self._cpus.kept else {})

    @property
    def progress(self) -> LoopProgress | None:
        """Its latest window; None: nothing is measured yet."""
        return self._progress.latest

    def look(self, running: RunningJob, now_s: float, *, lends_now: bool) -> None:
        """Measure. Raises what a user's summaries can, such as TypeError or LookupError."""
        self.pids = tuple(summary["pid"] for summary in running.summaries)
        self._word = (running.agreed, running.keeps)
        window = self._progress.look(running.summaries)
        pids = self.job.place.pids()
        self.workers = lent_workers(self.job.place, pids, self.pids)
        self.cores = self._cpus.own_cores(self.pids)
        if now_s - self._looked_s < LEAST_LOOK_S:
            return
        self._looked_s = now_s
        self.use = self._own_meter.look(pids - set(self.workers), now_s)
        self.lent_use = self._lent_meter.look(self.workers, now_s)
        self._judge(window, now_s, lends_now=lends_now)
        self._await_workers(now_s)

    def lending_job(self, now_s: float) -> LendingJob:
        """Return the job as the policy sees it; `cores` are known."""
        cores, use, progress = self.cores or frozenset(), self.use, self._progress.latest
        agreed, keeps = self._word
        measured = use is not None and progress is not None
        return LendingJob(
            job=self.job.key,
            group=self._group(),
            cores=cores,
            wanted_cores=use.used_cores + use.queued_cores if use else float(len(cores)),
            wait_share=progress.wait_share if progress else 0.0,
            lent_use=self._lent_use(),
            max_lent=self._max_lent(now_s) if measured and not keeps else 0,
            lends=measured and not keeps,
            lends_to_all=agreed,
            disturbed=now_s < self._rests_until_s,
        )

    def borrow(self, cores: frozenset[int]) -> None:
        """Have so many lent workers, beside its own cores; none: give all back.

        Call it again for workers that came since. Raises JobGoneError, UntrustedJobDirError or
        OSError.
        """
        if not cores:
            self.restore()
            return
        if cores != self.borrowed:
            taken_back = not self.borrowed <= cores
            self.borrowed = cores
            self._note()
            by_process = -(-len(cores) // max(1, len(self.pids)))
            gate.set_lent(self.job.run_dir, by_process, cores, uid=self.job.place.uid)
            if taken_back:
                self._cpus.restore()
        if self.workers and self.cores is not None:
            self._cpus.give(self.cores, cores, self.workers)

    def has_new_workers(self) -> bool:
        """True if lent workers came or went since the last look."""
        place = self.job.place
        return lent_workers(place, place.pids(), self.pids) != self.workers

    def restore(self) -> bool:
        """As Slurm left it; False: to be called again."""
        clean = True
        with suppress(OSError):
            if self.borrowed:
                with suppress(JobGoneError, UntrustedJobDirError):
                    gate.remove_lent(self.job.run_dir, uid=self.job.place.uid)
            if self._cpus.kept:
                clean = self._cpus.restore()
        self.borrowed = frozenset()
        self._unanswered_s = None
        return clean

    def _judge(self, window: LoopProgress | None, now_s: float, *, lends_now: bool) -> None:
        """Compare with before the loan, or take note of what is usual while nothing is lent."""
        if self.use is None:
            return
        measured = LoopWindow(
            queued_cores=self.use.queued_cores,
            samples_per_s=window.samples_per_s or None if window else None,
            batches=window.batches if window else 0,
        )
        if not lends_now or self._usual is None:
            self._usual = usual(self._usual, measured)
            return
        reason = disturbance(self._usual, measured, self._rules.floor)
        if reason is not None:
            self.disturbed_by, self._rests_until_s = reason, now_s + self._rules.rest_s
            self._usual = None  # it may be in another phase: what is usual is measured again
            log.info("%s lends nothing for a while: %s", self.job.key, reason)

    def _await_workers(self, now_s: float) -> None:
        """A loan that its probe does not take up is not kept from others."""
        if not self.borrowed or self.workers:
            self._unanswered_s = None
        elif self._unanswered_s is None:
            self._unanswered_s = now_s
        elif now_s - self._unanswered_s > PATIENCE_S:
            self._refused_until_s = now_s + self._rules.rest_s

    def _lent_use(self) -> float:
        """CPU time of its lent workers; where none has started yet, enough to keep the loan."""
        if self.workers and self.lent_use is not None:
            return self.lent_use.used_cores
        return USED * len(self.borrowed)

    def _max_lent(self, now_s: float) -> int:
        progress = self._progress.latest
        if progress is None or not progress.open_workers or now_s < self._refused_until_s:
            return 0
        return max(0, self._rules.max_workers * len(self.pids) - progress.open_workers)

    def _group(self) -> str:
        """Jobs of one group lend to each other."""
        if self._rules.lends_to == "all":
            return "all"
        if self._rules.lends_to == "account" and self.job.account:
            return f"account {self.job.account}"
        return f"uid {self.job.place.uid}"


def own_cores_overlap(jobs: Sequence[WatchedJob]) -> frozenset[int]:
    """Cores that Slurm gave to more than one of these jobs: nobody's to lend."""
    taken: set[int] = set()
    twice: set[int] = set()
    for job in jobs:
        cores = job.cores or frozenset()
        twice |= taken & cores
        taken |= cores
    return frozenset(twice)
