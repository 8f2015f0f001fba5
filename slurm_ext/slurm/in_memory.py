"""A cluster of records in memory, for tests and replay."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from slurm_ext.core.errors import SlurmError
from slurm_ext.slurm.records import (
    AccountedEnd,
    Accounting,
    EnforcedLimits,
    JobInfo,
    NodeInfo,
    PartitionInfo,
    PowerCommand,
    ReservationInfo,
    ResizeRequest,
    StartEstimate,
)


@dataclass(slots=True)
class MemoryClient:
    """A SlurmClient that answers with its fields; with `obeys`, it changes them as Slurm would."""

    known_jobs: tuple[JobInfo, ...] = ()
    known_partitions: tuple[PartitionInfo, ...] = ()
    known_nodes: tuple[NodeInfo, ...] = ()
    known_reservations: tuple[ReservationInfo, ...] = ()
    known_config: Mapping[str, str] = field(default_factory=dict)
    known_accounting: Accounting | None = None
    known_limits: tuple[EnforcedLimits, ...] = ()
    known_operators: frozenset[str] = frozenset()
    known_ends: tuple[AccountedEnd, ...] = ()
    known_scripts: Mapping[int, str] = field(default_factory=dict)
    asked: list[tuple[str, object, object]] = field(default_factory=list)  # in order
    obeys: bool = False
    usual_priority: int = 1000  # of a job that is not held, before its nice
    now_s: float = 0.0
    known_start: Callable[[tuple[str, ...]], StartEstimate] = lambda _: StartEstimate(start_s=0)

    def jobs(self) -> tuple[JobInfo, ...]:
        """Return `known_jobs`."""
        return self.known_jobs

    def partitions(self) -> tuple[PartitionInfo, ...]:
        """Return `known_partitions`."""
        return self.known_partitions

    def nodes(self) -> tuple[NodeInfo, ...]:
        """Return `known_nodes`."""
        return self.known_nodes

    def reservations(self) -> tuple[ReservationInfo, ...]:
        """Return `known_reservations`."""
        return self.known_reservations

    def config(self) -> Mapping[str, str]:
        """Return `known_config`."""
        return self.known_config

    def accounting(self) -> Accounting | None:
        """Return `known_accounting`."""
        return self.known_accounting

    def limits(self, user: str, qos: Sequence[str]) -> tuple[EnforcedLimits, ...]:
        """Return those of `known_limits` that are asked for."""
        return tuple(
            limits
            for limits in self.known_limits
            if (limits.qos in qos if limits.qos else limits.user in ("", user))
        )

    def operators(self) -> frozenset[str]:
        """Return `known_operators`."""
        return self.known_operators

    def ends(self, job_ids: Sequence[int], since_s: float) -> tuple[AccountedEnd, ...]:
        """Return those of `known_ends`, and note that they were asked for."""
        self.asked.append(("ends", tuple(job_ids), None))
        ends = (end for end in self.known_ends if end.job_id in job_ids)
        return tuple(end for end in ends if (end.end_time_s or since_s) >= since_s)

    def start_of(self, submission: Sequence[str], *, timeout_s: float) -> StartEstimate:  # noqa: ARG002 (nothing here takes time)
        """Return `known_start` of the submission."""
        return self.known_start(tuple(submission))

    def script_of(self, job_id: int) -> str | None:
        """Return the job's entry of `known_scripts`."""
        return self.known_scripts.get(job_id)

    def delay(self, job_ids: Sequence[int], seconds: int) -> None:
        """Note the call, and put off the known jobs."""
        self.asked.append(("delay", tuple(job_ids), seconds))
        for job_id in job_ids:
            self._change(job_id, eligible_time_s=int(self.now_s) + seconds)

    def bind(self, job_id: int, node: str | None) -> None:
        """Note the call, and bind the known job."""
        self.asked.append(("bind", job_id, node))
        self._change(job_id, required_nodes=node or "")

    def requeue(self, job_id: int, *, held: bool = False) -> None:
        """Note the call, and let the known job wait again."""
        self.asked.append(("requeue", job_id, "held" if held else None))
        job = self._change(job_id, state="PENDING", nodes="", start_time_s=None)
        if job is not None:
            self._change(job_id, restarts=job.restarts + 1)
            self._held(job_id, held=held)

    def hold(self, job_id: int) -> None:
        """Set its priority to 0. Raises SlurmError, as all below, if the job is unknown."""
        self._ask("hold", job_id, None)
        self._held(job_id, held=True)

    def release(self, job_id: int) -> None:
        """Set its priority to `usual_priority` less its nice."""
        self._ask("release", job_id, None)
        self._held(job_id, held=False)

    def set_nice(self, job_id: int, nice: int) -> None:
        """Change its priority by as much; it is never below 1."""
        job = self._ask("nice", job_id, nice)
        priority = job.priority and max(1, job.priority + job.nice - nice)
        self._change(job_id, nice=nice, priority=priority)

    def resize(self, job_id: int, request: ResizeRequest) -> None:
        """Change its nodes, GPUs (of all nodes), tasks and CPUs."""
        job = self._ask("resize", job_id, request)
        nodes = request.nodes or job.node_count or 1
        gpus = job.gpus if request.gpus_per_node is None else nodes * request.gpus_per_node
        tasks = request.tasks or job.tasks
        cpus = request.cpus or job.cpus
        self._change(job_id, node_count=nodes, gpus=gpus, tasks=tasks, cpus=cpus)

    def power(self, nodes: Sequence[str], state: PowerCommand) -> None:
        """Set the state that Slurm shows while nodes power up or down."""
        self.asked.append(("power", tuple(nodes), state))
        if not set(nodes) <= {node.name for node in self.known_nodes}:
            raise SlurmError("power", 1, "Invalid node name specified")
        if not self.obeys:
            return
        word = "POWERING_UP" if state is PowerCommand.UP else "POWERING_DOWN"
        self.known_nodes = tuple(
            replace(node, state=f"{node.state.partition('+')[0]}+{word}")
            if node.name in nodes
            else node
            for node in self.known_nodes
        )

    def _ask(self, what: str, job_id: int, how: object) -> JobInfo:
        self.asked.append((what, job_id, how))
        for job in self.known_jobs:
            if job.job_id == job_id:
                return job
        raise SlurmError(what, 1, f"Invalid job id specified for job {job_id}")

    def _held(self, job_id: int, *, held: bool) -> None:
        for job in self.known_jobs:
            if job.job_id == job_id:
                priority = None if held else max(1, self.usual_priority - job.nice)
                reason = "JobHeldAdmin" if held else "None"
                self._change(job_id, priority=priority, reason=reason)

    def _change(self, job_id: int, **changes: Any) -> JobInfo | None:
        """Change the job and return it as it was; None if it is not known."""
        if not self.obeys:
            return None
        before = next((job for job in self.known_jobs if job.job_id == job_id), None)
        self.known_jobs = tuple(
            replace(job, **changes) if job.job_id == job_id else job for job in self.known_jobs
        )
        return before
