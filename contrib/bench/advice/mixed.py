"""Trainings with several causes at once, and the advice that helps most.

The truth is a replay: the simulated machine runs each training again with every remedy, and the
best one is what shortened it most. So nothing here rests on what a rule holds to be a cause.
"""

import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from statistics import median
from types import MappingProxyType
from typing import Any

from contrib.bench.advice.present_rule import said as said_before
from contrib.bench.advice.training import Job, record, seconds_each
from slurm_ext.core.advice.from_record import advice_of

NEAR = 1.10  # times the best remedy's time: the advice was as good
FIRST = 1000  # seed: those below 60 were looked at while the rule was written
WORTH = 0.10  # of the time: where the best remedy gains less, silence is right
FALSE_GAIN = 0.03  # of the time: an advice that gains less gained nothing

Remedy = Callable[[Job, int | None, int | None], Job]
"""A training, the advice's value and the workers that it names beside it; the changed training."""


def _workers(job: Job, value: int | None, _: int | None) -> Job:
    return replace(job, workers=value or 2 * max(1, job.workers))


def _cpus(job: Job, value: int | None, workers: int | None) -> Job:
    cores = float(value or 2 * job.cores)
    return replace(job, cores=cores, workers=max(job.workers, workers or int(cores)))


REMEDIES: Mapping[str, Remedy] = MappingProxyType(
    {
        "load_in_workers": _workers,
        "more_workers": _workers,
        "more_workers_to_read": _workers,
        "more_cpus": _cpus,
        "local_copy": lambda job, _, __: replace(job, disk=1e12),
        "persistent_workers": lambda job, _, __: replace(job, persistent=True),
        "deeper_prefetch": lambda job, value, _: replace(job, prefetch=value or 8),
    }
)
TRIED = (
    ("more_workers", 2),
    ("more_workers", 4),
    ("more_workers", 8),
    ("more_workers", 16),
    ("more_cpus", 4),
    ("more_cpus", 8),
    ("more_cpus", 16),
    ("local_copy", None),
    ("persistent_workers", None),
    ("deeper_prefetch", 8),
)
"""Remedies with their values, from which the best one is chosen."""


def job(rng: random.Random) -> Job:
    """A training with costs of every kind, at random."""
    step_s = rng.uniform(0.03, 0.12)
    batch, workers, cores = rng.choice((4, 8, 16)), rng.choice((0, 1, 2, 4)), rng.choice((1, 2, 4))
    each_s = rng.uniform(0.2, 2.5) * step_s * max(1, min(workers, cores)) / batch
    cpu = rng.random() ** 2 if rng.random() < 0.5 else 1.0
    disk = rng.choice((2e7, 1e8, 1e9))
    slow = rng.random() < 0.25
    return Job(
        batch=batch,
        workers=workers,
        cores=float(cores),
        cpu_s=cpu * each_s,
        sleep_s=(1 - cpu) * each_s * rng.random(),
        read_bytes=rng.choice((0.0, 4e3, 1e5, 5e5)),
        disk=disk,
        slow_share=0.03 if slow else 0.0,
        slow_times=20.0 if slow else 1.0,
        step_s=step_s,
        start_s=rng.choice((0.03, 0.03, 0.5, 1.5)),
        batches=rng.choice((40, 150, 400)),
    )


def mixed(count: int) -> dict[str, Any]:
    """Shares of trainings whose first advice is near the best remedy; ours and the rule of before.

    `removable_error`: median difference between the share that an advice promises and the share
    that the replay gains.
    """
    cases = [_case(random.Random(f"mixed {FIRST + seed}")) for seed in range(count)]
    return {
        "trainings": count,
        "worth_an_advice": sum(one["worth"] for one in cases),
        "ours": _score(cases, "ours"),
        "before": _score(cases, "before"),
        "removable_error": median([one["error"] for one in cases if one["error"] is not None]),
    }


def _case(rng: random.Random) -> dict[str, Any]:
    one = job(rng)
    seen = record(one, rng)
    found = next(iter(advice_of(seen)), None)
    old = said_before(seen)
    times = {key: seconds_each(REMEDIES[key[0]](one, key[1], None)) for key in TRIED}
    now_s, best_s = seconds_each(one), min(times.values())
    ours = (found["action"], found["value"], found["workers"]) if found else None
    ours_s = _after(one, now_s, ours)
    return {
        "worth": best_s < (1 - WORTH) * now_s,
        "now_s": now_s,
        "best_s": min(best_s, ours_s),
        "ours": ours_s if ours else None,
        "before": _after(one, now_s, (old[1], None, None)) if old else None,
        "error": abs(found["share"] - (1 - ours_s / now_s)) if found else None,
    }


def _after(one: Job, now_s: float, said: tuple[str, int | None, int | None] | None) -> float:
    """Seconds of a batch after following an advice; one that has no remedy here changes nothing."""
    remedy = REMEDIES.get(said[0]) if said else None
    return seconds_each(remedy(one, *said[1:])) if remedy and said else now_s


def _score(cases: list[dict[str, Any]], who: str) -> dict[str, float]:
    """Right: near the best where that is worth it, else silence; useless: followed for nothing."""
    right = [
        one[who] is not None and one[who] <= NEAR * one["best_s"]
        if one["worth"]
        else one[who] is None or one[who] < (1 - FALSE_GAIN) * one["now_s"]
        for one in cases
    ]
    said = [one for one in cases if one[who] is not None]
    useless = [one for one in said if one[who] >= (1 - FALSE_GAIN) * one["now_s"]]
    return {"right": sum(right) / len(cases), "useless": len(useless) / max(1, len(said))}
