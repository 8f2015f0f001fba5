"""One case of `buckets`: a job's first run, the plan that is made of it, and all sizes by turns."""

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
OWN_KIB = (1024.0, 25600.0)  # torch's own first bucket, and the others
ONE_MIB = (1, 2, 4, 10, 25, 100)
COLD = 3  # steps of a module: connections, and torch's first buckets
_HOST = {"cores": 2}
_ALLOCATION = {"cpus_per_task": 1, "num_nodes": 1, "cpus": 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """Steps of a job's first run, of a turn, and the turns that each kind of buckets has."""

    first: int = 40
    turn: int = 12
    turns: int = 3


def measured(places: Sequence[Place], shape: str, steps: Steps) -> dict[str, Any]:
    """Predicted and measured seconds of a step by bucket sizes, and the cost of the reader."""
    count = len(places)
    first = ran(places, [shape, str(steps.first), "[]"], buckets=["measure"] * count)
    run = evidence_of(first, count)
    model = model_of([run], [run])
    if model is None:
        return {"why_not": "nothing was exposed"}
    chosen = as_text(model.best(lists=run.takes_lists))
    sizes = {DEFAULT: "", **{str(mib): str(1024 * mib) for mib in ONE_MIB}, "chosen": chosen}
    clock = by_turns(places, shape, sizes, steps)
    reading = [one["reading_s"] / sum(map(sum, one["steps_s"])) for one in first.clocks]
    return {
        "chosen": chosen,
        "first_s": run.step_s,
        "exposed": run.exposed_s * run.syncs / run.step_s,
        "link": [model.link.latency_s, model.link.bytes_per_s],
        "predicted_s": {name: round(_predicted(model, caps), 5) for name, caps in sizes.items()},
        "measured_s": {name: round(median(turns), 5) for name, turns in clock.items()},
        "turns_s": {name: [round(one, 5) for one in turns] for name, turns in clock.items()},
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


def by_turns(
    places: Sequence[Place], shape: str, sizes: Mapping[str, str], steps: Steps
) -> dict[str, list[float]]:
    """Median step of each turn of each kind; every other round is in the opposite order."""
    names = [*sizes]
    order = [name for turn in range(steps.turns) for name in (names if turn % 2 else names[::-1])]
    words = [shape, str(steps.turn), json.dumps([sizes[name] for name in order])]
    clocks = ran(places, words).clocks
    found: dict[str, list[float]] = {name: [] for name in names}
    for place, name in enumerate(order):
        ranks = [clock["steps_s"][place][COLD:] for clock in clocks]
        found[name].append(median([max(step) for step in zip(*ranks, strict=True)]))
    return found


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
