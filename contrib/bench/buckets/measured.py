"""One case of `buckets`: a job's first run, the plan that it makes, and all sizes by rounds."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from contrib.bench.buckets.runs import Ran, ran
from contrib.bench.common.limited_link import Place
from slurm_ext.core.records import SyncRun
from slurm_ext.core.stalls.bucket_caps import as_mib, as_text
from slurm_ext.core.stalls.sync_run import sync_run
from slurm_ext.model.communication.bucket_model import BucketModel
from slurm_ext.policy.buckets import model_of

DEFAULT = "default"
AGAIN = "again"  # the same buckets once more: how far two measurements of one thing are apart
OWN_KIB = (1024.0, 25600.0)  # torch's own first bucket, and the others
ONE_MIB = (1, 2, 4, 10, 25, 100)
COLD = 3  # rounds: connections, and torch's first buckets
_HOST = {"cores": 2}
_ALLOCATION = {"cpus_per_task": 1, "num_nodes": 1, "cpus": 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """Steps of a job's first run, and rounds with a step of each kind of buckets."""

    first: int = 40
    rounds: int = 36


def measured(places: Sequence[Place], shape: str, steps: Steps) -> dict[str, Any]:
    """Predicted and measured seconds of a step by bucket sizes, and the cost of the reader."""
    count = len(places)
    first = ran(places, [shape, str(steps.first), "[]"], buckets=["measure"] * count)
    run = evidence_of(first, count)
    model = model_of([run], [run])
    if model is None:
        return {"why_not": "nothing was exposed"}
    chosen = as_text(model.best(lists=run.takes_lists))
    single = {str(mib): str(1024 * mib) for mib in ONE_MIB}
    sizes = {DEFAULT: "", AGAIN: "", **single, "chosen": chosen}
    clock = by_rounds(places, shape, sizes, steps.rounds)
    own = clock[DEFAULT]
    reading = [one["reading_s"] / sum(map(sum, one["steps_s"])) for one in first.clocks]
    return {
        "chosen": chosen,
        "first_s": run.step_s,
        "first_median_s": median(map(max, zip(*_warm(first.clocks, 0), strict=True))),
        "exposed": run.exposed_s * run.syncs / run.step_s,
        "link": [model.link.latency_s, model.link.bytes_per_s],
        "predicted_s": {name: round(_predicted(model, caps), 5) for name, caps in sizes.items()},
        "measured_s": {name: round(median(each), 5) for name, each in clock.items()},
        "of_own": {name: round(_ratio(each, own), 5) for name, each in clock.items()},
        "reading": max(reading),
    }


def evidence_of(first: Ran, ranks: int) -> SyncRun:
    """The evidence, as the history's record of such a job has it."""
    record: dict[str, Any] = {
        "probe": {"summaries": first.summaries},
        "allocation": {**_ALLOCATION, "num_tasks": ranks},
        "host": _HOST,
        "outcome": {"state": "COMPLETED"},
    }
    found = sync_run(record)
    if found is None:
        raise ValueError("the first run tells nothing of its gradients")
    return found


def by_rounds(
    places: Sequence[Place], shape: str, sizes: Mapping[str, str], rounds: int
) -> dict[str, list[float]]:
    """Seconds of each warm round's step with each kind: those of its slowest rank."""
    clocks = ran(places, [shape, str(rounds), json.dumps([*sizes.values()])]).clocks
    return {
        name: [max(step) for step in zip(*_warm(clocks, place), strict=True)]
        for place, name in enumerate(sizes)
    }


def _warm(clocks: Sequence[dict[str, Any]], place: int) -> list[list[float]]:
    return [clock["steps_s"][place][COLD:] for clock in clocks]


def _ratio(each: Sequence[float], own: Sequence[float]) -> float:
    """Step by step of the same rounds: what slows one slows the other."""
    return median([one / beside for one, beside in zip(each, own, strict=True)])


def _predicted(model: BucketModel, caps: str) -> float:
    return model.step_s([1024 * mib for mib in as_mib(caps)] if caps else OWN_KIB)


def losses(places: Sequence[Place]) -> dict[str, Any]:
    """The largest difference of two loss curves of 50 steps, of themselves; True: the same bits."""
    clocks = ran(places, ["16,512x2,2048"], module="losses").clocks
    own, others = clocks[0]["losses"]
    apart = [abs(one - two) / abs(one) for one, two in zip(own, others, strict=True)]
    return {"largest": max(apart), "same_bits": own == others, "from": own[0], "to": own[-1]}


def disagreement_s(places: Sequence[Place]) -> float:
    """Seconds of the slowest rank to a module whose ranks were asked for other bucket sizes."""
    asked = ["1024,2048", *["2048,1024"] * (len(places) - 1)]
    clocks = ran(places, [json.dumps(asked)], module="disagreeing").clocks
    return max(float(clock["constructed_s"]) for clock in clocks)
