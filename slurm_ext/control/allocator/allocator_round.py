"""One round of the controller: look, measure, decide by the pure policy, act or only say."""

import logging
import os
import time
from collections.abc import Mapping
from contextlib import suppress

from slurm_ext.control.allocator.actuator import apply, limit_reads, limited_without_need
from slurm_ext.control.allocator.cgroup.cpu import QUOTA, UNDO_ATTEMPTS, UNDO_WAIT_S
from slurm_ext.control.allocator.cgroup.errors import JobGoneError
from slurm_ext.control.allocator.cgroup.reads import disk_of
from slurm_ext.control.allocator.controlled_job import ControlledJob, WindowPace
from slurm_ext.control.allocator.jobs import RunningJob, SpooledJobs
from slurm_ext.control.allocator.node import Machine, slurm_cpus
from slurm_ext.control.allocator.slurm import SlurmNodeQuery, SlurmNodeView
from slurm_ext.control.allocator.status import changes, ledger, rows
from slurm_ext.control.allocator.undo_log import Folder
from slurm_ext.core.settings.document import Settings
from slurm_ext.core.units import MIB
from slurm_ext.policy.allocator.hysteresis import Retune, retune
from slurm_ext.policy.allocator.max_min_share import capped
from slurm_ext.policy.allocator.operating_points import OperatingPoint
from slurm_ext.policy.allocator.shares import proportional

MOST_FAILURES = 3
log = logging.getLogger("dlqueue.control")


class Allocator:
    """The tenancies of one node."""

    def __init__(
        self, settings: Settings, jobs: SpooledJobs, folder: Folder, slurm: SlurmNodeQuery
    ) -> None:
        self.settings, self._jobs, self._folder, self._slurm = settings, jobs, folder, slurm
        self.controlled: dict[str, ControlledJob] = {}
        self.left_alone: dict[str, str] = {}
        self._leaving: dict[
            str, ControlledJob
        ] = {}  # gone, with something of ours still to be removed
        self._refused: dict[str, str] = {}  # jobs that could not be changed, for good
        self._pace = WindowPace(
            window_s=settings["control.window_s"], settle_s=settings["control.settle_s"]
        )
        self._storage_bytes_per_s = settings["control.storage_mib_per_s"] * MIB or None
        self._device = disk_of(settings["control.storage_path"])
        self._changed_s: float | None = None
        self._ended = False
        self._failures = 0
        self._said = ""
        self.stopped = False

    @property
    def acts(self) -> bool:
        """Whether anything is changed at all."""
        return bool(self.settings["control.mode"] == "act") and not self.stopped

    @property
    def _lends(self) -> bool:
        """Whether CPUs are given by weight; whole ones are given by number."""
        settings = self.settings
        return bool(settings["control.lends_unused"] and settings["control.grain_cores"] < 1)

    def job_keys(self) -> frozenset[str]:
        """The jobs that run now, by name only."""
        return self._jobs.keys()

    def pids(self) -> list[int]:
        """Training processes whose end frees a share."""
        return [pid for one in self.controlled.values() for pid in one.pids]

    def safe_round(self) -> None:
        """A round; an error leaves the jobs as they are, and the third in a row gives all back."""
        try:
            self.round()
            self._failures = 0
        except Exception:  # whatever it is, the jobs must not feel it
            self._failures += 1
            log.exception("this round failed; the jobs stay as they are")
            if self._failures >= MOST_FAILURES and not self.stopped:
                self.stopped = True
                log.error("three rounds failed: everything is given back, nothing is changed again")
                self.restore()

    def round(self) -> Retune | None:
        """Look and decide, and act where the mode says so; None: nothing to decide."""
        running = self._jobs.look()
        machine, view = self._machine(running)
        demands = self._admit(running, machine)
        self._dismiss(set(demands))
        if not demands:
            self._tell(None, machine)
            return None
        given = {key: machine.units(one.job.cpus) for key, one in demands.items()}
        units = sum(given.values()) + machine.units(view.idle_cpus)
        shares = proportional(given, units)
        decided = self._decide(demands, shares, units, view)
        if decided.change:
            self._note(decided, units)
        if self.acts and (decided.change or limited_without_need(demands)):
            self._act(decided.allocation.points, machine, units)
        self._share_reads(decided.allocation.points)
        self._tell(decided, machine)
        return decided

    def restore(self) -> None:
        """Every share and gate as they were."""
        self._leaving |= self.controlled
        self.controlled = {}
        for _ in range(UNDO_ATTEMPTS):
            self._see_off()
            if not self._leaving:
                return
            time.sleep(UNDO_WAIT_S)

    # -- look --------------------------------------------------------------------------------

    def _machine(self, running: tuple[RunningJob, ...]) -> tuple[Machine, SlurmNodeView]:
        node = running[0].job.place.node if running else ""
        keys = frozenset(one.job.key for one in running)
        view = self._slurm.look(node, keys) if running else SlurmNodeView()
        real = os.cpu_count() or 1
        grain = self.settings["control.grain_cores"]
        cpus = slurm_cpus(view.cpus, real, running)
        return Machine(real_cores=real, slurm_cpus=cpus, grain_cores=grain, lends=self._lends), view

    def _admit(self, running: tuple[RunningJob, ...], machine: Machine) -> dict[str, ControlledJob]:
        """The jobs that may be controlled, with what they say by now."""
        self.left_alone = {}
        found = {}
        for one in running:
            key = one.job.key
            why_not = self._refused.get(key) or machine.why_not(one)
            job = self.controlled.get(key) or self._tenancy(one)
            if why_not is None and machine.grain_cores < 1 and QUOTA not in job.share.mechanisms:
                why_not = "no CPU quota can be set here, and control.grain_cores needs one"
            if why_not is not None:
                self.left_alone[key] = why_not
                continue
            try:
                job.look(one, self.settings["control.max_workers"])
            except (TypeError, ValueError, LookupError, ArithmeticError, AttributeError):
                self.left_alone[key] = "its summaries are not what the probe writes"
                continue
            found[key] = self.controlled[key] = job
        return found

    def _tenancy(self, running: RunningJob) -> ControlledJob:
        return ControlledJob(running.job, self._keep, self._pace, lends=self._lends)

    def _dismiss(self, staying: set[str]) -> None:
        """Who has ended frees its share at once; the job itself is as it was."""
        gone = [key for key in self.controlled if key not in staying]
        for key in gone:
            self._leaving[key] = self.controlled.pop(key)
        self._ended = self._ended or bool(gone)
        self._see_off()
        known = self._jobs.keys()
        self._refused = {key: why for key, why in self._refused.items() if key in known}

    def _see_off(self) -> None:
        """Take from whoever left what is ours; one that came back has it again."""
        if self._leaving:
            stay = {
                key: one
                for key, one in self._leaving.items()
                if key not in self.controlled and not one.restore()
            }
            self._leaving = stay
            self._keep()

    # -- decide ------------------------------------------------------------------------------

    def _decide(
        self,
        controlled: Mapping[str, ControlledJob],
        shares: Mapping[str, int],
        units: int,
        view: SlurmNodeView,
    ) -> Retune:
        settings, now = self.settings, time.time()
        demands = []
        for key, one in controlled.items():
            end_s = view.end_s.get(one.job.place.job_id)
            left_s = None if end_s is None else max(0.0, end_s - now)
            demands.append(one.demand(units, shares[key], settings["control.grain_cores"], left_s))
        decided = retune(
            demands,
            units,
            now_s=time.monotonic(),
            changed_s=self._changed_s,
            switch_cost_s=settings["control.switch_cost_s"],
            ended=self._ended,
            io_bytes_per_s=self._storage_bytes_per_s,
            margin=settings["control.margin"],
            cooldown_s=settings["control.cooldown_s"],
        )
        self._ended = False
        return decided

    def _note(self, decided: Retune, units: int) -> None:
        """Into the ledger and the log, where it is not what was said last."""
        given = sorted(decided.allocation.points.items())
        said = f"{decided.reason}: { {key: (one.units, one.workers) for key, one in given} }"
        if said == self._said:
            return
        self._said = said
        self._folder.note(
            {"t_s": round(time.time(), 3), "acted": self.acts, "units": units, **ledger(decided)}
        )
        log.info("%s%s", "" if self.acts else "would: ", said)

    # -- act ---------------------------------------------------------------------------------

    def _act(self, points: Mapping[str, OperatingPoint], machine: Machine, units: int) -> None:
        self._refused |= apply(self.controlled, points, machine, units)
        self._changed_s = time.monotonic()

    def _share_reads(self, points: Mapping[str, OperatingPoint]) -> None:
        """Nobody reads so much that others have less of the storage than was divided."""
        if not (self.acts and self._device and self._storage_bytes_per_s):
            return
        most = capped(points, self._storage_bytes_per_s)
        limits = limit_reads(self.controlled, most, self._device)
        if limits:
            told = {key: round(bytes_per_s / MIB, 3) for key, bytes_per_s in limits.items()}
            self._folder.note({"t_s": round(time.time(), 3), "acted": True, "read_mib_per_s": told})
            log.info("reads, MiB/s, 0 for no limit: %s", told)

    def keep_up(self) -> None:
        """The same shares for processes that came since."""
        if self.acts:
            for job in self.controlled.values():
                with suppress(JobGoneError, OSError):
                    job.share.keep_up()

    def _keep(self) -> None:
        self._folder.keep(changes({**self._leaving, **self.controlled}))

    def _tell(self, decided: Retune | None, machine: Machine) -> None:
        self._folder.tell(
            {
                "t_s": round(time.time(), 3),
                "pid": os.getpid(),
                "mode": self.settings["control.mode"],
                "acts": self.acts,
                "grain_cores": machine.grain_cores,
                "change": decided.change if decided else False,
                "reason": decided.reason if decided else "no job here can be moved",
                "jobs": rows(self.controlled, decided.allocation if decided else None),
                "left_alone": dict(self.left_alone),
            }
        )
