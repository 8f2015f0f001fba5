"""Replay of an arrival order on one node of two slots, with measured speeds and a policy's choices.

The clock jumps from end to end. At each end, the policy chooses the waiting jobs that start now.
It sees the queue in order and the running jobs with their remaining work, and nothing else.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

SLOTS = 2
Chooser = Callable[[Sequence["Job"], Sequence["Job"]], Sequence["Job"]]
"""(waiting in order, running) to those that start now, at most as many as there are free slots."""


@dataclass(slots=True)
class Job:
    """One job of an order."""

    name: str
    kind: str
    work_s: float  # alone
    left_s: float = 0.0
    began_s: float = 0.0
    ended_s: float = 0.0
    below_s: float = 0.0  # seconds that its speed was below the floor
    segments: list[tuple[str | None, float, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.left_s = self.work_s

    @property
    def ratio(self) -> float:
        """Of its speed alone, over its whole run."""
        return self.work_s / (self.ended_s - self.began_s)


def replay(
    jobs: Sequence[Job], choose: Chooser, speed: Mapping[tuple[str, str], float], *, floor: float
) -> float:
    """The makespan in seconds; fills in the jobs.

    Raises ValueError where the policy starts too many, or nobody on an idle node.
    """
    waiting, running, now_s = list(jobs), list[Job](), 0.0
    while waiting or running:
        for job in choose(waiting, running):
            if len(running) >= SLOTS:
                raise ValueError("more jobs than slots")
            waiting.remove(job)
            job.began_s = now_s
            running.append(job)
        if not running:
            raise ValueError("nobody runs, and nobody is started")
        now_s += _until_one_ends(running, speed, floor)
        for job in [job for job in running if job.left_s <= 1e-9]:
            job.ended_s = now_s
            running.remove(job)
    return now_s


def _until_one_ends(
    running: Sequence[Job], speed: Mapping[tuple[str, str], float], floor: float
) -> float:
    rates = {}
    for job in running:
        other = next((one for one in running if one is not job), None)
        rates[job.name] = (1.0 if other is None else speed[job.kind, other.kind], other)
    step_s = min(job.left_s / rates[job.name][0] for job in running)
    for job in running:
        rate, other = rates[job.name]
        job.left_s -= step_s * rate
        job.below_s += step_s if rate < floor else 0.0
        job.segments.append((None if other is None else other.kind, rate, step_s))
    return step_s
