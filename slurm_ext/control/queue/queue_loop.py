"""The live queue: the order of the replayed policy, brought about by `nice`.

Users' own holds, dependencies, begin times, reservations, nice and QOS are kept; backfill stays as
the site has it. What was set is on the disk before Slurm hears of it, and is put back at the end.
"""

from collections.abc import Mapping, Sequence, Set
from typing import Any

from slurm_ext.control.loops.loop_state import LoopState
from slurm_ext.control.loops.planned_loop import DONE, PlannedAction, planned_kind
from slurm_ext.control.queue.jobs import Group, OwnNices, WaitingQueue, look, stays, unit_of
from slurm_ext.control.queue.order import QueueRank, in_order, longest_wait, row
from slurm_ext.control.queue.runtime_estimates import RuntimeEstimates, StickyEstimates
from slurm_ext.core.settings.document import Settings
from slurm_ext.policy.queue.ageing import LongestWait
from slurm_ext.policy.queue.nice import NiceBounds, WaitingJob, nices
from slurm_ext.slurm.client import SlurmClient
from slurm_ext.slurm.records import JobInfo

NEEDED = "priority/multifactor"
NOT_HERE = f"Slurm's PriorityType is not {NEEDED}: there a nice would put a job behind all others"


class QueueLoop:
    """One cluster's waiting jobs."""

    def __init__(self, settings: Settings, client: SlurmClient, state: LoopState) -> None:
        self._settings, self._client, self._state = settings, client, state
        self._ours = state.load(nices_from_json)
        busy_ms = settings["history.busy_timeout_ms"]
        self._times = StickyEstimates(RuntimeEstimates(settings.state_dir, busy_timeout_ms=busy_ms))
        self._priority_type: str | None = None
        self._seen: dict[str, Any] = {}
        self._left = 0  # units with jobs that run with our nice, at the last undo

    def plan(self, now_s: float) -> Sequence[PlannedAction]:
        """Plan the nices. Raises SlurmError."""
        if not self._can():
            self._seen = {"reason": NOT_HERE, "orders": [], "left_alone": {}}
            return ()
        jobs = self._client.jobs()
        queue = look(jobs, self._ours, self._settings, now_s)
        self._times.see(jobs)
        self._forget(queue, {unit_of(job) for job in jobs if not job.ended})
        self._ours.longest = longest = longest_wait(self._ours.longest, queue.groups, now_s)
        orders = {
            group: in_order(waiting, self._settings["queue.order"], self._times, now_s, longest)
            for group, waiting in queue.groups.items()
        }
        bounds = NiceBounds(
            most=self._settings["queue.max_nice"], least=self._settings["queue.min_nice"]
        )
        nices_by_group = {group: nices(_standing(order), bounds) for group, order in orders.items()}
        self._seen = _status(queue, orders, nices_by_group)
        planned = [
            _planned(rank, nices_by_group[group][rank.waiting.subject])
            for group, order in orders.items()
            for rank in order
            if rank.waiting.subject in nices_by_group[group]
        ]
        released = [job for job in jobs if job.state == "PENDING" and stays(job, self._settings)]
        planned = [*self._given_back(released, "it is left alone since"), *planned]
        return planned[: self._settings["queue.most_updates"]]

    def apply(self, planned: PlannedAction) -> str:
        """Set one nice. Raises SlurmError."""
        job_id, nice = int(planned.subject), int(planned.after["nice"])
        nices_set = self._ours.nices.get(job_id, [])
        self._ours.nices[job_id] = list({*nices_set, int(planned.before["nice"]), nice})
        self._keep()
        self._client.set_nice(job_id, nice)
        if nice == 0:
            del self._ours.nices[job_id]
        else:
            self._ours.nices[job_id] = [nice]
        self._keep()
        return DONE

    def undo(self, now_s: float) -> Sequence[PlannedAction]:  # noqa: ARG002 (of every loop's shape)
        """Plan nice 0 for waiting jobs that still have our nice. Raises SlurmError."""
        if not self._ours.nices:
            self._left = 0
            return ()
        alive = [job for job in self._client.jobs() if not job.ended and self._is_changed(job)]
        waiting = [job for job in alive if job.state == "PENDING"]
        self._left = len({unit_of(job) for job in alive} - {unit_of(job) for job in waiting})
        return self._given_back(waiting, "the queue is Slurm's own again")

    def left(self) -> str:
        """Return how many running jobs Slurm would put behind others if it requeued them."""
        return f"running jobs with a nice of ours ({self._left})" if self._left else ""

    def _is_changed(self, job: JobInfo) -> bool:
        """True if it has a nice of ours."""
        return bool(job.nice) and job.nice in self._ours.nices.get(unit_of(job), [])

    def _given_back(self, waiting: Sequence[JobInfo], why: str) -> Sequence[PlannedAction]:
        """Plan nice 0 for those that still have our nice."""
        planned: dict[int, PlannedAction] = {}
        for job in waiting:
            if self._is_changed(job):
                unit = unit_of(job)
                planned[unit] = PlannedAction(
                    subject=str(unit),
                    job_id=unit,
                    done="nice=0",
                    why=why,
                    before={"nice": job.nice},
                    after={"nice": 0},
                )
        return tuple(planned.values())

    def status(self) -> Mapping[str, Any]:
        """`{reason, orders, left_alone}` of the last look (`_status`)."""
        return self._seen

    def _can(self) -> bool:
        if self._priority_type is None:
            self._priority_type = self._client.config().get("PriorityType", "")
        return self._priority_type == NEEDED

    def _forget(self, queue: WaitingQueue, alive: Set[int]) -> None:
        """Forget jobs that have ended, and those whose nice somebody else set."""
        ours = self._ours
        ours.fixed = (ours.fixed | queue.changed) & alive
        gone = [job_id for job_id in ours.nices if job_id in queue.changed or job_id not in alive]
        for job_id in gone:
            del ours.nices[job_id]

    def _keep(self) -> None:
        nices_now = {str(job): values for job, values in self._ours.nices.items()}
        longest = [self._ours.longest.seconds, self._ours.longest.at_s]
        kept = {"nices": nices_now, "fixed": sorted(self._ours.fixed), "longest_wait": longest}
        self._state.keep(kept)


def nices_from_json(kept: Mapping[str, Any]) -> OwnNices:
    """Read the nices from the loop's undo file."""
    nices_then = {
        int(job): [int(n) for n in values] for job, values in kept.get("nices", {}).items()
    }
    seconds, at_s = kept.get("longest_wait", (0.0, 0.0))
    return OwnNices(
        nices=nices_then,
        fixed={int(job) for job in kept.get("fixed", [])},
        longest=LongestWait(float(seconds), float(at_s)),
    )


def _standing(order: Sequence[QueueRank]) -> list[WaitingJob]:
    return [
        WaitingJob(
            job=rank.waiting.subject,
            priority=rank.waiting.priority,
            nice=rank.waiting.info.nice,
            tie=rank.waiting.job_id,
        )
        for rank in order
    ]


def _planned(rank: QueueRank, nice: int) -> PlannedAction:
    info = rank.waiting.info
    return PlannedAction(
        subject=rank.waiting.subject,
        job_id=rank.waiting.job_id,
        done=f"nice={nice}",
        why=_why(rank, nice),
        before={"nice": info.nice, "priority": rank.waiting.priority},
        after={"nice": nice, "place": rank.place, "need_s": round(rank.need, 1)},
    )


def _why(rank: QueueRank, nice: int) -> str:
    need = f"it is predicted to need {rank.need_text} (by {rank.length.by})"
    if rank.ahead is None or nice <= 0:
        return f"{need}: it goes first again" if nice < rank.waiting.info.nice else need
    return f"{need}: it goes after job {rank.ahead.subject}, place {rank.place}"


def _status(
    queue: WaitingQueue,
    orders: Mapping[Group, Sequence[QueueRank]],
    nices_by_group: Mapping[Group, Mapping[str, int]],
) -> dict[str, Any]:
    """Status JSON: each group's order, predicted needs, and jobs that are left alone."""
    orders_json = []
    for group, order in sorted(orders.items()):
        partition, qos, gpus = group
        rows = [row(rank, nices_by_group[group].get(rank.waiting.subject)) for rank in order]
        orders_json.append({"partition": partition, "qos": qos, "gpus": gpus, "jobs": rows})
    return {"reason": None, "orders": orders_json, "left_alone": dict(queue.left_alone)}


KIND = planned_kind("queue", QueueLoop)
