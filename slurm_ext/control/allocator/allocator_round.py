"""The node's divider (`control.allocator = "divide"`): look, measure, decide, and in act apply.

It holds every job to a share by a modelled curve, for sites that want hard shares.
"""

import logging
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from slurm_ext.control.allocator import decision_log
from slurm_ext.control.allocator.actuator import (
    apply,
    limit_reads,
    limited_without_need,
    units_there,
)
from slurm_ext.control.allocator.cgroup.cpu import QUOTA
from slurm_ext.control.allocator.cgroup.job_location import JobGoneError
from slurm_ext.control.allocator.cgroup.reads import disk_of
from slurm_ext.control.allocator.controlled_job import ControlledJob, WindowPace
from slurm_ext.control.allocator.jobs import RunningJob, SpooledJobs
from slurm_ext.control.allocator.node import Machine, slurm_cpus
from slurm_ext.control.allocator.node_loop import NodeLoop, pidfds
from slurm_ext.control.allocator.slurm import SlurmNodeQuery, SlurmNodeView
from slurm_ext.control.allocator.status import rows
from slurm_ext.control.loops.control_loop import Events
from slurm_ext.control.loops.loop_state import LoopState
from slurm_ext.core.settings.document import Settings
from slurm_ext.core.units import MIB
from slurm_ext.policy.allocator.hysteresis import Retune, retune
from slurm_ext.policy.allocator.max_min_share import capped, proportional
from slurm_ext.policy.allocator.operating_points import OperatingPoint

log = logging.getLogger("dlqueue.control")


class Allocator(NodeLoop[ControlledJob]):
    """Divides the CPUs of one node among the jobs that it controls."""

    def __init__(
        self, settings: Settings, jobs: SpooledJobs, state: LoopState, slurm: SlurmNodeQuery
    ) -> None:
        super().__init__(settings, jobs, state, slurm)
        self._pace = WindowPace(
            window_s=settings["control.window_s"], settle_s=settings["control.settle_s"]
        )
        self._storage_bytes_per_s = settings["control.storage_mib_per_s"] * MIB or None
        self._device = disk_of(settings["control.storage_path"])
        self._changed_s: float | None = None
        self._ended = False
        self._logged = ""

    @property
    def _lends(self) -> bool:
        """True if CPUs are given by weight; whole cores are given by number."""
        settings = self.settings
        return bool(settings["control.lends_unused"] and settings["control.grain_cores"] < 1)

    def round(self) -> Retune | None:
        """Look and decide, and apply in mode act; None: there is nothing to decide."""
        self._begin()
        try:
            return self._round()
        finally:
            self._keep_up()

    @contextmanager
    def events(self) -> Iterator[Events]:
        """A job comes or goes, or a training process ends: its share is free."""
        before = self._jobs.keys()
        pids = [pid for job in self.here.values() for pid in job.pids]
        with pidfds(pids) as descriptors:
            yield Events(descriptors=descriptors, changed=lambda: self._jobs.keys() != before)

    def _round(self) -> Retune | None:
        running = self._jobs.look()
        machine, view = self._machine(running)
        demands = self._admit(running, machine)
        self._ended = self._dismiss(set(demands)) or self._ended
        if not demands:
            self._write_status(None, machine)
            return None
        allocated = {key: machine.units(job.job.cpus) for key, job in demands.items()}
        units = units_there(demands, machine, sum(allocated.values()), view.idle_cpus)
        shares = proportional(allocated, units)
        decision = self._decide(demands, shares, units, view)
        if decision.change:
            self._record(decision, units)
        if self.acts and (decision.change or limited_without_need(demands)):
            self._apply(decision.allocation.points, machine, units)
        self._limit_reads(decision.allocation.points)
        self._write_status(decision, machine)
        return decision

    # -- look --------------------------------------------------------------------------------

    def _machine(self, running: tuple[RunningJob, ...]) -> tuple[Machine, SlurmNodeView]:
        node = running[0].job.place.node if running else ""
        keys = frozenset(running_job.job.key for running_job in running)
        view = self._slurm.look(node, keys) if running else SlurmNodeView()
        real = os.cpu_count() or 1
        grain = self.settings["control.grain_cores"]
        cpus = slurm_cpus(view.cpus, real, running)
        return Machine(real_cores=real, slurm_cpus=cpus, grain_cores=grain, lends=self._lends), view

    def _admit(self, running: tuple[RunningJob, ...], machine: Machine) -> dict[str, ControlledJob]:
        """The jobs that may be controlled, with what they say by now."""
        self.left_alone = {}
        admitted = {}
        for running_job in running:
            key = running_job.job.key
            why_not = self._refused.get(key) or machine.why_not(running_job)
            job = self.here.get(key) or self._controlled(running_job)
            if why_not is None and machine.grain_cores < 1 and QUOTA not in job.share.mechanisms:
                why_not = "no CPU quota can be set here, and control.grain_cores needs one"
            if why_not is not None:
                self.left_alone[key] = why_not
                continue
            try:
                job.look(running_job, self.settings["control.max_workers"])
            except (TypeError, ValueError, LookupError, ArithmeticError, AttributeError):
                self.left_alone[key] = "its summaries are not what the probe writes"
                continue
            admitted[key] = self.here[key] = job
        return admitted

    def _controlled(self, running: RunningJob) -> ControlledJob:
        return ControlledJob(running.job, self._keep, self._pace, lends=self._lends)

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
        for key, job in controlled.items():
            end_s = view.end_s.get(job.job.place.job_id)
            left_s = None if end_s is None else max(0.0, end_s - now)
            demands.append(job.demand(units, shares[key], settings["control.grain_cores"], left_s))
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

    def _record(self, decision: Retune, units: int) -> None:
        """Append it to decisions.jsonl and the log, where it differs from the last one."""
        points = sorted(decision.allocation.points.items())
        division = {key: (point.units, point.workers) for key, point in points}
        text = f"{decision.reason}: {division}"
        if text != self._logged:
            self._logged = text
            self._append(self.acts, units=units, **decision_log.decision_json(decision))
            log.info("%s%s", "" if self.acts else "would: ", text)

    def _append(self, acted: bool, **entry: Any) -> None:
        if self._state.writes:
            decision_log.append(self._state.path / "decisions.jsonl", acted=acted, **entry)

    # -- act ---------------------------------------------------------------------------------

    def _apply(self, points: Mapping[str, OperatingPoint], machine: Machine, units: int) -> None:
        self._refused |= apply(self.here, points, machine, units)
        self._changed_s = time.monotonic()

    def _limit_reads(self, points: Mapping[str, OperatingPoint]) -> None:
        """Let no job read so much that others have less of the storage than was divided."""
        if not (self.acts and self._device and self._storage_bytes_per_s):
            return
        most = capped(points, self._storage_bytes_per_s)
        limits = limit_reads(self.here, most, self._device)
        if limits:
            read_mib_per_s = {key: round(rate / MIB, 3) for key, rate in limits.items()}
            self._append(True, read_mib_per_s=read_mib_per_s)
            log.info("reads, MiB/s, 0 for no limit: %s", read_mib_per_s)

    def _keep_up(self) -> None:
        """Apply the same shares to processes that came since."""
        if self.acts:
            for job in self.here.values():
                with suppress(JobGoneError, OSError):
                    job.share.keep_up()

    def _write_status(self, decision: Retune | None, machine: Machine) -> None:
        self._state.write_status(
            {
                "t_s": round(time.time(), 3),
                "pid": os.getpid(),
                "mode": self.settings["control.mode"],
                "acts": self.acts,
                "allocator": "divide",
                "grain_cores": machine.grain_cores,
                "change": decision.change if decision else False,
                "reason": decision.reason if decision else "no job here can be moved",
                "jobs": rows(self.here, decision.allocation if decision else None),
                "left_alone": dict(self.left_alone),
            }
        )
