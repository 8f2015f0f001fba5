"""Reads a job's counters while it lives, because they are gone when its epilog runs.

Ends when the epilog says so (SIGTERM), when the job has no processes and is over for Slurm, too
(then it writes the record itself), when the kill file appears, or when its state is taken away. Its
cost is bounded: one hundredth of a core, and a slower pace for a longer job.
"""

from __future__ import annotations

import os
import signal
import time

from slurm_ext.node.common import log, state
from slurm_ext.node.common.job import PROBE_SITE
from slurm_ext.node.common.spool_layout import Spool, split_key
from slurm_ext.node.counters.corunners import CoRunners
from slurm_ext.node.counters.meter import JobMeter
from slurm_ext.node.counters.timeline import Timeline
from slurm_ext.node.kernel.pythons import Pythons
from slurm_ext.node.sampling.folder_watch import CHANGED, FolderWatch
from slurm_ext.node.sampling.run_folder import RunFolder
from slurm_ext.node.sampling.training_loop import LoopTimes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from slurm_ext.node.common.config import NodeConfig

NAME = "dlqueue-sampler"  # as ps and top show it
COST_SHARE = 0.01  # of a core, over the job's life
GRANT_S = 0.1  # CPU time on top, so that a short job is seen closely
SLOWEST_S = 30.0
FASTEST_S = 0.1
FLUSH_S = (1.0, 10.0)
FIRST_GRACE_S, GRACE_S = 20.0, 600.0  # without processes, until Slurm is asked; doubled each time
LONGEST_UNANSWERED = 4


def sample_job(config: NodeConfig, key: str, grace_s: float = GRACE_S) -> bool:
    """Sample the job `key` until it ends; does nothing if another sampler already does.

    True if its record was written here, and waits for transport: signals end this process again.
    """
    spool = Spool(config.spool_dir)
    blocked = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, CHANGED)
    signal.pthread_sigmask(signal.SIG_BLOCK, blocked)
    lock = state.lock(spool.state_file(key, "lock"))
    if lock is None:
        return False
    with lock:
        lock.sign()
        job_state = state.load(spool, key, "json")
        if job_state is None or os.path.exists(spool.state_file(key, "end")):
            return False
        sampler = _Sampler(config, spool, key, job_state, lock)
        try:
            recorded = sampler.run(grace_s)
        finally:
            sampler.meter.hardware.close()
    if recorded:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, blocked)
    return recorded


_FIRST_COLUMNS = 4  # of the time line's first version: every row has them


class _Sampler:
    def __init__(
        self,
        config: NodeConfig,
        spool: Spool,
        key: str,
        job_state: dict[str, Any],
        lock: state.Lock,
    ) -> None:
        self.config, self.spool, self.key, self.job_state = config, spool, key, job_state
        self.lock = lock
        gpus = (job_state.get("allocation") or {}).get("gpus") or ()
        self.meter = JobMeter(job_state["identity"], job_state.get("meter") or {}, gpus=gpus)
        timeline = job_state.get("timeline") or {}
        self.timeline = Timeline(timeline.get("rows", ()), timeline.get("stride", 1))
        self.boot_id = state.boot_id()
        self.flushed_s = self.alive_s = state.uptime_s()
        self.corunners = CoRunners(spool, key, job_state, self.alive_s)
        self.run_folder = RunFolder(spool.run_dir(key), int(job_state["identity"]["uid"]))
        self.watch = FolderWatch(self.run_folder)
        self.loop = LoopTimes(self.run_folder.path, self.run_folder.uid)
        self.pythons = Pythons(PROBE_SITE, job_state.get("unprobed"))
        self.unanswered = 0

    def run(self, grace_s: float) -> bool:
        """Sample, flush and wait, until there is a reason to end; True if that made the record."""
        wait_s, spent_s = 0.0, time.process_time()
        patience_s = min(FIRST_GRACE_S, grace_s)
        while not self.watch.wait(wait_s):
            if not self._may_go_on():
                return False
            self._sample()
            cost_s = time.process_time() - spent_s - self.run_folder.spent_s
            wait_s = self._pause(cost_s + self.meter.hardware.cpu_s)
            if state.uptime_s() - self.alive_s > patience_s:
                if not self._lives_on(grace_s):
                    self._finish()
                    return True
                patience_s = min(2 * patience_s, grace_s)
        self._sample(last=True)
        return False

    def _may_go_on(self) -> bool:
        """Not by the state alone: a last flush may have put it back into a folder that went."""
        mine = self.lock.stands() and os.path.exists(self.spool.state_file(self.key, "json"))
        return mine and not os.path.exists(self.config.kill_file)

    def _sample(self, *, last: bool = False) -> None:
        now = state.uptime_s()
        if self.meter.sample(last=last):
            self.alive_s = now
        if self.config.probe:
            self.pythons.look(self.meter.processes.members, now)
            self.loop.look(now, last=last)
        self.watch.look()
        self.corunners.meet(now)
        self.timeline.add(self._row(now))
        due_s = min(FLUSH_S[1], max(FLUSH_S[0], self._elapsed_s(now) / 20))
        if last or now - self.flushed_s >= due_s or len(self.timeline.rows) == 1:
            self.flushed_s = now
            self._flush(now)

    def _row(self, now: float) -> list[float | None]:
        """A row of columns.TIMELINE; what later versions added is left out where it is null."""
        read = self.meter.totals.get("io_read")
        busy_s, gpu_mem = self.meter.hardware.gpu_moment()
        row = [
            round(self._elapsed_s(now), 3),
            _rounded(self.meter.cpu_s()),
            self.meter.mem_now,
            read[1] if read else None,
            _rounded(busy_s),
            gpu_mem,
            *self.loop.totals,
        ]
        while len(row) > _FIRST_COLUMNS and row[-1] is None:
            row.pop()
        return row

    def _flush(self, now: float) -> None:
        """Write the whole state to the disk, from where the record is composed."""
        if not self.lock.stands():
            return
        self.job_state["place"] = self._place()
        self.corunners.compare(self.job_state["place"])
        self.job_state["shared"] = self.corunners.shared
        self.job_state["faults"] = [*self.meter.hardware.faults(), *self.run_folder.faults]
        self.job_state["meter"] = self.meter.saved()
        self.job_state["timeline"] = {"rows": self.timeline.rows, "stride": self.timeline.stride}
        self.job_state["corunners"] = self.corunners.overlap_s
        self.job_state["unprobed"] = self.pythons.unprobed
        self.job_state["seen_s"] = round(self._elapsed_s(now), 3)
        try:
            state.save(self.spool, self.key, "json", self.job_state, durable=False)
        except OSError as error:
            log.report(f"sampler {self.key}: {error}")

    def _place(self) -> dict[str, Any]:
        """CPUs and GPUs of the job, for its record and for the samplers of other jobs."""
        names = (self.job_state.get("allocation") or {}).get("gpus") or []
        return {**self.meter.look_around(), "gpu_names": names}

    def _pause(self, cost_s: float) -> float:
        elapsed_s = self._elapsed_s(state.uptime_s())
        early_s = min(self.config.sample_s, max(FASTEST_S, elapsed_s / 10))
        earned_s = (cost_s - GRANT_S) / COST_SHARE - elapsed_s
        pause_s = max(early_s, earned_s, min(elapsed_s / 240, SLOWEST_S))
        return min(pause_s, 1.0) if self.run_folder.is_filled else pause_s

    def _elapsed_s(self, now: float) -> float:
        return max(0.0, now - float(self.job_state["started_uptime_s"]))

    def _lives_on(self, grace_s: float) -> bool:
        """True if a job without processes goes on: an allocation may wait for its user.

        A requeued job goes on, too, but not this start of it. One that ends waits for its epilog.
        """
        from slurm_ext.node.record.squeue import GOING_ON, query_job

        job_id, restart = split_key(self.key)
        facts = query_job(self.config, job_id, wait_s=5.0)
        self.unanswered = 0 if facts else self.unanswered + 1
        running = self.unanswered < LONGEST_UNANSWERED
        if facts:
            running = facts["state"] in GOING_ON and (facts["restarts"] or 0) <= restart
        if running:
            self.alive_s = state.uptime_s() + grace_s * self.unanswered
        return bool(running)

    def _finish(self) -> None:
        from slurm_ext.node.record.compose import compose_record

        self._flush(state.uptime_s())
        compose_record(self.config, self.spool, self.key, time.monotonic() + 30.0)


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)
