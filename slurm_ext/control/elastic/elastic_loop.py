"""Live elasticity: the replayed policy's division, for jobs whose owners let their size change.

A waiting job requests another size. A running one is requeued: Slurm sends SIGTERM, the job writes
its checkpoint within KillWait and waits again, which Slurm makes two minutes long. In the next look
it gets its new size and starts at once, where its slurmd can do that (slurm/requeued.py). It is
never held: if dlqueue dies in between, the job starts by itself as it was.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from slurm_ext.control.elastic.division import division_of
from slurm_ext.control.elastic.job_report import report_of
from slurm_ext.control.elastic.jobs import (
    ElasticPool,
    RequestedSize,
    Resizable,
    is_taken_back,
    look,
    pool_json,
    requested_size,
    shape_of,
)
from slurm_ext.control.elastic.limits import ElasticLimits
from slurm_ext.control.loops.loop_state import LoopState
from slurm_ext.control.loops.planned_loop import DONE, PlannedAction, planned_kind
from slurm_ext.core import elastic_requests
from slurm_ext.core.errors import InputError
from slurm_ext.core.settings.document import Settings
from slurm_ext.slurm.client import SlurmClient
from slurm_ext.slurm.records import JobInfo, ResizeRequest
from slurm_ext.slurm.requeued import requeued_wait_s

_MET_A_LIMIT = "at this size it waits for a limit of its account, QOS or partition"
_LEFT_ALONE = "it is left alone since"
log = logging.getLogger("dlqueue.elastic")


@dataclass(frozen=True, slots=True, kw_only=True)
class Resize(PlannedAction):
    """One job's new size."""

    shape: ResizeRequest
    asked: RequestedSize
    restarts: bool  # it runs
    starts: bool = False  # it was requeued by us, and starts with its size


class ElasticLoop:
    """One cluster's elastic jobs."""

    def __init__(self, settings: Settings, client: SlurmClient, state: LoopState) -> None:
        self._settings, self._client, self._state = settings, client, state
        kept = state.load(dict)
        self._asked: dict[str, RequestedSize] = dict(
            kept.get("asked", {})
        )  # as their users wrote them
        self._wanted: dict[str, int] = dict(kept.get("wanted", {}))  # size after our requeue
        self._changed_s: dict[str, float] = dict(kept.get("changed_s", {}))
        self._limits = ElasticLimits(client, set(kept.get("limited", ())))
        self._now_s = 0.0
        self._wait_s = 0.0  # of a requeued job, until it starts by itself; 0: we start it
        self._seen: dict[str, Any] = {}
        self._left = 0  # jobs that the last undo left at a size of ours, for they run

    def plan(self, now_s: float) -> Sequence[PlannedAction]:
        """Plan the resizes. Raises SlurmError."""
        self._now_s = now_s
        self._wait_s = requeued_wait_s(self._client.config(), self._client.nodes())
        jobs = self._client.jobs()
        self._forget(jobs)
        variables = self._variables()
        pools, left_alone = self._look(jobs, variables)
        self._limits.read(now_s)
        over = self._limits.over(jobs, self._asked)
        planned: list[PlannedAction] = [self._given_back(job, _MET_A_LIMIT) for job in over]
        gone = [job for job in self._taken_back(jobs, variables) if job not in over]
        planned += [self._given_back(job, _LEFT_ALONE) for job in gone]
        statuses = []
        for pool in (self._limits.within(pool, self._asked, jobs) for pool in pools):
            reports = {resizable.name: report_of(resizable.info) for resizable in pool.jobs}
            left_alone |= {job: why for job, (_, why) in reports.items() if why}
            measured = {job: report for job, (report, _) in reports.items()}
            sizes = division_of(pool, measured, self._wanted, self._settings, self._wait_s)
            statuses.append(pool_json(pool, sizes))
            planned += self._resizes(pool, sizes)
        self._seen = {"pools": statuses, "left_alone": left_alone}
        return planned

    def _given_back(self, job: JobInfo, why: str) -> Resize:
        """Plan the size that its user wrote, on as many nodes."""
        request = self._asked[str(job.job_id)]
        own = Resizable(info=job, least=request["gpus"], most=request["gpus"])
        per_node = max(1, -(-request["gpus"] // request["nodes"]))
        pool = ElasticPool(partition=job.partition, per_node=per_node, gpus=0, jobs=[own])
        return self._planned(own, request["gpus"], pool, why)

    def _taken_back(
        self, jobs: Sequence[JobInfo], variables: Mapping[int, str] | None
    ) -> list[JobInfo]:
        """Jobs that wait at a size of ours, and are none of ours any more."""
        if variables is None:  # one that opted in by its environment would look like them
            return []
        changed = [job for job in jobs if self._is_changed(job)]
        return [j for j in changed if is_taken_back(j, self._settings, variables.get(j.job_id))]

    def _variables(self) -> Mapping[int, str] | None:
        """Requests in environments, as the history has them; None where they cannot be read."""
        try:
            return elastic_requests.read(self._settings.state_dir)
        except InputError as error:
            log.warning("%s; comments alone count", error)
            return None

    def _look(
        self, jobs: Sequence[JobInfo], variables: Mapping[int, str] | None
    ) -> tuple[list[ElasticPool], dict[str, str]]:
        """Pools and jobs left alone, by comments and environments."""
        ours = [int(job) for job in self._wanted]
        return look(jobs, self._client.nodes(), self._settings, ours, variables or {})

    def _resizes(self, pool: ElasticPool, sizes: Mapping[str, int]) -> list[PlannedAction]:
        """Plan shrinking jobs first; a job that was changed lately stays."""
        planned: list[PlannedAction] = []
        for resizable in pool.jobs:
            name = resizable.name
            if name in self._wanted and not resizable.runs:
                planned += self._started(resizable, self._wanted[name], pool)
            elif name in sizes and sizes[name] != resizable.gpus and self._is_rested(name):
                planned.append(
                    self._planned(resizable, sizes[name], pool, _why(resizable, sizes[name]))
                )
        return sorted(planned, key=lambda action: action.after["gpus"] - action.before["gpus"])

    def _started(self, resizable: Resizable, gpus: int, pool: ElasticPool) -> list[Resize]:
        """Resize a job that waits because we requeued it, and start it where slurmd can that."""
        if self._wait_s and resizable.gpus == gpus:
            return []
        why = "its checkpoint is written: it goes on at its new size"
        if self._wait_s:
            why += f", {self._wait_s:.0f} s after its end: slurmd drains nodes by less"
        resize = self._planned(resizable, gpus, pool, why)
        done = f"{resizable.gpus}->{gpus} GPUs{'' if self._wait_s else ', start'}"
        return [replace(resize, done=done, restarts=False, starts=True)]

    def _planned(self, resizable: Resizable, gpus: int, pool: ElasticPool, why: str) -> Resize:
        request = self._asked.get(resizable.name) or requested_size(resizable.info)
        words = f"{resizable.gpus}->{gpus} GPUs"
        return Resize(
            subject=resizable.name,
            job_id=resizable.info.job_id,
            done=f"requeue {words}" if resizable.runs else words,
            why=why,
            before={"gpus": resizable.gpus},
            after={"gpus": gpus},
            shape=shape_of(request, gpus, pool.per_node),
            asked=request,
            restarts=resizable.runs,
        )

    def _is_rested(self, job: str) -> bool:
        since = self._now_s - self._changed_s.get(job, float("-inf"))
        return bool(since >= self._settings["elastic.least_s"])

    def apply(self, planned: PlannedAction) -> str:
        """Change one. Raises SlurmError."""
        if not isinstance(planned, Resize):
            raise TypeError(f"expected a Resize: {planned!r}")
        job_id, name = int(planned.subject), planned.subject
        self._asked.setdefault(name, planned.asked)
        if planned.restarts:
            self._wanted[name] = int(planned.after["gpus"])
            self._changed_s[name] = self._now_s
        self._keep()
        if planned.restarts:
            self._client.requeue(job_id)
            return DONE
        if planned.before["gpus"] != planned.after["gpus"]:
            self._client.resize(job_id, planned.shape)
        if planned.starts and not self._wait_s:
            self._client.delay([job_id], 0)
            self._wanted.pop(name, None)
        elif name in self._wanted:
            self._wanted[name] = int(planned.after["gpus"])  # nobody else's until it runs
        self._changed_s[name] = self._now_s
        if self._asked[name]["gpus"] == planned.after["gpus"]:
            del self._asked[name]
        self._keep()
        return DONE

    def undo(self, now_s: float) -> Sequence[PlannedAction]:
        """Jobs that wait ask for what they asked, and may start; who runs goes on. SlurmError."""
        self._now_s, self._left = now_s, 0
        if not self._asked and not self._wanted:
            return ()
        self._wait_s = requeued_wait_s(self._client.config(), self._client.nodes())
        jobs = self._client.jobs()
        self._forget(jobs)
        self._left = sum(1 for job in jobs if self._runs_changed(job))
        started = self._undone_starts(jobs)
        subjects = {action.subject for action in started}
        changed = [job for job in jobs if self._is_changed(job) and str(job.job_id) not in subjects]
        return [*started, *(self._given_back(job, "sizes are its user's again") for job in changed)]

    def _undone_starts(self, jobs: Sequence[JobInfo]) -> list[Resize]:
        """Plan the starts of jobs that we requeued; one left alone since is started by Slurm."""
        pools, _ = self._look(jobs, self._variables())
        planned: list[Resize] = []
        for pool in pools:
            for resizable in pool.jobs:
                name = resizable.name
                if name in self._wanted and not resizable.runs:
                    gpus = self._asked[name]["gpus"] if name in self._asked else resizable.gpus
                    planned += self._started(resizable, gpus, pool)
        return planned

    def left(self) -> str:
        """Return how many running jobs would wait at a size of ours if Slurm requeued them."""
        return f"running jobs at a size of ours ({self._left})" if self._left else ""

    def _is_changed(self, job: JobInfo) -> bool:
        """True if it waits, for whatever it is, at a size other than its user's."""
        return job.state == "PENDING" and self._has_other_size(job)

    def _runs_changed(self, job: JobInfo) -> bool:
        """True if it runs at such a size, or ends because we requeued it."""
        stays = job.state != "PENDING" and not job.ended
        return stays and (str(job.job_id) in self._wanted or self._has_other_size(job))

    def _has_other_size(self, job: JobInfo) -> bool:
        request = self._asked.get(str(job.job_id))
        return request is not None and request["gpus"] != job.gpus

    def status(self) -> Mapping[str, Any]:
        """`{pools, left_alone}` of the last look."""
        return self._seen

    def _forget(self, jobs: Sequence[JobInfo]) -> None:
        """Forget jobs that have ended, and the size that one was to have that runs."""
        alive = {str(job.job_id) for job in jobs if not job.ended}
        self._limits.limited &= alive
        for kept in (self._asked, self._wanted, self._changed_s):
            for name in set(kept) - alive:
                del kept[name]
        for job in jobs:
            if job.state == "RUNNING":  # Slurm started it before we came: as it was
                self._wanted.pop(str(job.job_id), None)

    def _keep(self) -> None:
        kept = {"asked": self._asked, "wanted": self._wanted, "changed_s": self._changed_s}
        limited = sorted(self._limits.limited)
        self._state.keep({**kept, "limited": limited} if limited else kept)


def _why(resizable: Resizable, gpus: int) -> str:
    if not resizable.runs:
        bounds = f"{resizable.least} to {resizable.most}"
        return f"it may have {bounds} GPUs: {gpus} now ends all jobs sooner"
    more = "more" if gpus > resizable.gpus else "fewer"
    return f"by what it measured, {more} GPUs end all elastic jobs sooner, its restart counted"


KIND = planned_kind("elastic", ElasticLoop)
