"""Waiting jobs that are put in order, by group, and jobs left alone with the reason. Pure.

An array is one: its tasks that wait get the same nice, and go where its first one goes.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from slurm_ext.control.coscheduling.jobs import words
from slurm_ext.core.settings.document import Settings
from slurm_ext.policy.queue.ageing import LongestWait
from slurm_ext.slurm.records import JobInfo

OFF = "dlqueue=off"
ANYBODY = "*"
# Why Slurm says that a job waits for no more than its turn (the others: a hold, a limit, ...).
ITS_TURN = frozenset({"None", "", "Priority", "Resources", "JobArrayTaskLimit"})
Group = tuple[str, str, bool]  # partitions, QOS, whether GPUs are asked for


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A job, or an array, that may be put in order. `job_id` is the array's own."""

    job_id: int
    info: JobInfo  # of its first that waits
    members: int = 1

    @property
    def subject(self) -> str:
        """As people name it."""
        return str(self.job_id)

    @property
    def priority(self) -> int:
        """With its nice taken off."""
        return self.info.priority or 1

    @property
    def size(self) -> int:
        """GPUs, or CPUs where it asks for no GPU."""
        return self.info.gpus or self.info.cpus or 1

    @property
    def since_s(self) -> int | None:
        """Time from which on its wait counts: Slurm's EligibleTime, else its submission.

        Nobody makes it wait while its own dependency, hold or begin time keeps it. A hold of the
        co-scheduling loop counts as one, too; sharing.most_wait_s bounds it.
        """
        times = (self.info.submit_time_s, self.info.eligible_time_s)
        return max((at_s for at_s in times if at_s is not None), default=None)

    @property
    def group(self) -> Group:
        """Only jobs of one partition, QOS and kind are put in order among each other."""
        return (self.info.partition, self.info.qos, bool(self.info.gpus))


@dataclass(slots=True)
class OwnNices:
    """Memory of the loop: nices that it set, jobs decided by others, and the longest wait."""

    nices: dict[int, list[int]] = field(default_factory=dict)  # by Waiting.job_id
    fixed: set[int] = field(default_factory=set)  # somebody else decided since
    longest: LongestWait = field(default_factory=LongestWait)

    def of(self, job_id: int) -> list[int]:
        """Values that are ours; 0 is everybody's."""
        return [0, *self.nices.get(job_id, [])]


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingQueue:
    """The waiting jobs of one look."""

    groups: Mapping[Group, Sequence[Waiting]]
    left_alone: Mapping[str, str]  # why, by job
    changed: frozenset[int]  # a nice that we set is not there any more


def look(jobs: Iterable[JobInfo], ours: OwnNices, settings: Settings, now_s: float) -> WaitingQueue:
    """Sort out who waits."""
    groups: dict[Group, list[Waiting]] = {}
    left_alone: dict[str, str] = {}
    changed = set()
    for unit, members in _units(jobs).items():
        if _changed(unit, members, ours):
            changed.add(unit)
        why = _not_ours(unit, members, ours, settings, now_s)
        if why is not None:
            left_alone[str(unit)] = why
            continue
        first = min(members, key=lambda job: (-(job.priority or 0), job.job_id))
        waiting = Waiting(job_id=unit, info=first, members=len(members))
        groups.setdefault(waiting.group, []).append(waiting)
    return WaitingQueue(groups=groups, left_alone=left_alone, changed=frozenset(changed))


def unit_of(job: JobInfo) -> int:
    """The id by which a job is changed: of an array's task the array's."""
    return job.array_job_id or job.job_id


def _units(jobs: Iterable[JobInfo]) -> dict[int, list[JobInfo]]:
    units: dict[int, list[JobInfo]] = {}
    for job in jobs:
        if job.state == "PENDING":
            units.setdefault(unit_of(job), []).append(job)
    return units


def _changed(unit: int, members: Sequence[JobInfo], ours: OwnNices) -> bool:
    """True if somebody has set another nice since we did, or Slurm did not take ours."""
    return unit in ours.nices and any(job.nice not in ours.nices[unit] for job in members)


def _not_ours(
    unit: int, members: Sequence[JobInfo], ours: OwnNices, settings: Settings, now_s: float
) -> str | None:
    """Reason why it is left alone; None if it is put in order."""
    if unit in ours.fixed or _changed(unit, members, ours):
        return "its priority or nice was set by somebody since"
    if any(job.nice not in ours.of(unit) for job in members):
        return f"its user gave it a nice of {members[0].nice}"
    if len({job.nice for job in members}) > 1 and unit not in ours.nices:
        return "its tasks have each a nice of their own"
    return stays(members[0], settings) or _waits_for(members, now_s)


def stays(job: JobInfo, settings: Settings) -> str | None:
    """Reason in the job or the settings why it is left alone, however long it waits."""
    if OFF in words(job):
        return "it opted out"
    if job.het_job_id is not None:
        return "it is a part of a heterogeneous job"
    if job.reservation:
        return f"it has a place in the reservation {job.reservation}"
    chosen = (
        ("partitions", job.partition.split(",")),
        ("accounts", [job.account]),
        ("users", [job.user_name]),
    )
    for key, names in chosen:
        allowed = settings[f"queue.{key}"]
        if ANYBODY not in allowed and not set(names) <= set(allowed):
            return f"queue.{key} does not have its {key[:-1]}"
    return None


def _waits_for(members: Sequence[JobInfo], now_s: float) -> str | None:
    """Reason other than its turn why it waits; None if one of its tasks could be next."""
    why = [_other_than_its_turn(job, now_s) for job in members]
    return None if None in why else why[0]


def _other_than_its_turn(job: JobInfo, now_s: float) -> str | None:
    if not job.priority:
        return "it is held"
    if job.dependency and job.reason.startswith("Dependency"):
        return f"it waits for other jobs: {job.dependency}"
    if job.eligible_time_s is not None and job.eligible_time_s > now_s + 1:
        return "it is not to start yet (begin time)"
    return None if job.reason in ITS_TURN else f"it waits for {job.reason}"
