"""The policies that coscheduling compares, as choices on a node of two slots."""

import random
from collections.abc import Callable, Mapping, Sequence

from contrib.bench.coscheduling.replay import SLOTS, Chooser, Job
from slurm_ext.core.gpu_sharing import CorunMeasurement, RelativeSpeed, SoloProfile, SpeedBasis
from slurm_ext.model.slowdown.model import slowdown_model
from slurm_ext.policy.colocation.choose_pairs import Candidate, SharingRules, SpeedPredictor
from slurm_ext.policy.colocation.co_scheduling import NodeSlot, place_waiting

FLOOR = 0.85
NOISE = 0.03  # of one measured run's speed: what two runs of one job differ by
PLACE = "node"


class Measured:
    """Speeds as they were measured: the oracle's knowledge."""

    def __init__(self, speed: Mapping[tuple[str, str], float]) -> None:
        self._speed = speed

    def speed(
        self,
        job: SoloProfile,
        beside: Sequence[SoloProfile],
        device: str = "cpu",  # noqa: ARG002 (a predictor's signature)
    ) -> RelativeSpeed:
        """The product over those beside; two never have more than one."""
        value = 1.0
        for one in beside:
            value *= self._speed[job.key, one.key]
        return RelativeSpeed(mean=value, low=value, high=value, evidence=SpeedBasis.PAIR)


def fifo(waiting: Sequence[Job], running: Sequence[Job]) -> Sequence[Job]:
    """Slurm's rule: the first in the queue takes the slot."""
    return waiting[: SLOTS - len(running)]


def alone(waiting: Sequence[Job], running: Sequence[Job]) -> Sequence[Job]:
    """Never sharing."""
    return waiting[:1] if not running else []


def at_random(seed: int) -> Chooser:
    """Anybody of the queue takes the slot."""
    dice = random.Random(seed)

    def choose(waiting: Sequence[Job], running: Sequence[Job]) -> Sequence[Job]:
        return dice.sample(list(waiting), min(len(waiting), SLOTS - len(running)))

    return choose


def steered(
    known: SpeedPredictor,
    *,
    floor: float = FLOOR,
    on_bound: Callable[[str, float], None] | None = None,
) -> Chooser:
    """Dlqueue's own policy; `on_bound` is called with the lower bound of each job that shares."""
    rules = SharingRules(floor=floor, anyway=True)

    def choose(waiting: Sequence[Job], running: Sequence[Job]) -> Sequence[Job]:
        queue = [_candidate(job, rank) for rank, job in enumerate(waiting)]
        here = [_candidate(job, 0, PLACE) for job in running]
        places = [NodeSlot(name=PLACE, free_cpus=SLOTS - len(running))]
        steps = place_waiting(queue, here, places, known, rules=rules)
        for step in steps:
            if step.start and step.pair and on_bound:
                for name, speed in step.pair.speeds.items():
                    if speed.evidence is not SpeedBasis.PRIOR:
                        on_bound(name, speed.low)
        free = {step.job for step in steps if step.free}  # Slurm takes the first of them
        return [job for job in waiting if job.name in free][: SLOTS - len(running)]

    return choose


def learned(runs: Sequence[Sequence[Job]], dice: random.Random) -> SpeedPredictor:
    """The product's model of what earlier orders showed, each measurement with its noise."""
    rows = [
        CorunMeasurement(
            job=job.kind,
            partners=(other,),
            speed=rate * dice.lognormvariate(0.0, NOISE),
            seconds=seconds,
        )
        for order in runs
        for job in order
        for other, rate, seconds in job.segments
        if other is not None and seconds >= 1.0
    ]
    return slowdown_model(rows)


def _candidate(job: Job, rank: int, place: str | None = None) -> Candidate:
    return Candidate(
        job=job.name,
        solo=SoloProfile(key=job.kind),
        user="user",
        remaining_s=job.left_s,
        opted_in=True,
        rank=float(rank),
        place=place,
    )
