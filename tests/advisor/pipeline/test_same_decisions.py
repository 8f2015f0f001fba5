"""Decisions on made-up submissions stay what they were: a faster way must lead to the same place.

`decisions.json` was written before predictions, inverted runs and parsed lists were kept from one
submission to the next: `python -m tests.advisor.pipeline.test_same_decisions`.
"""

import json
from math import exp
from pathlib import Path
from random import Random
from typing import Any

from slurm_ext.advisor.limits.bounds import PartitionRules
from slurm_ext.advisor.pipeline.context import DecisionContext
from slurm_ext.advisor.pipeline.decide import decide
from slurm_ext.core.records import Level, LoaderRun, Prediction, Submission
from slurm_ext.core.settings.document import Settings

FILE = Path(__file__).parent / "decisions.json"
COUNT = 300
VALUES = {"site.mode": "act", "policy.holdout_share": 0.0, "policy.change_explicit": "any"}
SETTINGS = Settings(values=VALUES)
GPUS = (None, None, None, "gres:gpu:1", "gres/gpu:a100:2", "gpu:v100:1,mps:50")


def _between(chance: Random, low: float, high: float) -> float:
    return low * exp(chance.random() * chance.random() * 5) % high + low


def _hardware(chance: Random) -> dict[str, Any]:
    """Accelerators and the like, the same for all runs of a job."""
    return {
        "gpus": chance.choice((0, 1)),
        "ranks": chance.choice((None, 1, 2)),
        "threads": chance.choice((None, 4)),
        "on_cpu": chance.choice((None, None, None, 1)),
        "node_cores": chance.choice((None, 8)),
        "gpu_model": chance.choice((None, "NVIDIA A100", "Tesla V100")),
    }


def _run(chance: Random, base: dict[str, float], hardware: dict[str, Any]) -> LoaderRun:
    """A run like `base`, on some workers and cores; every third one on a busy node."""
    workers, cores = chance.choice((0, 1, 2, 4, 8)), float(chance.choice((1, 2, 4, 8, 0.5)))
    accel, wall, cpu = (base[name] * (0.95 + chance.random() / 10) for name in ("g", "f", "u"))
    supply = min(max(1, workers) / wall, cores / cpu)
    rate = 0.98 * (1 / (1 / accel + wall) if workers == 0 else min(accel, supply))
    busy = chance.random() < 1 / 3
    slowed = chance.uniform(1.2, 3.0) if busy else 1.0
    more: dict[str, Any] = {
        "main_cpu_s": chance.choice((None, 0.2 / accel)),
        "worker_rss_bytes": chance.choice((None, 1 << 28, 1 << 30)),
        "epoch_samples": chance.choice((None, 5000.0)),
        "fetch_queued_s": wall * (slowed - 1) * 0.9 if busy else None,
        "sample_bytes": chance.choice((None, 1e5)),
        "whole_samples_per_s": chance.choice((None, 0.9 * rate / slowed)),
        **hardware,
    }
    return LoaderRun(
        samples_per_s=rate / slowed,
        workers=workers,
        cores=cores,
        batch_size=float(chance.choice((1, 16, 128))),
        accel_samples_per_s=accel,
        fetch_wall_s=wall * slowed,
        fetch_cpu_s=cpu,
        **more,
    )


def made_up(number: int) -> tuple[Submission, DecisionContext]:
    """A submission, and runs of its kind."""
    chance = Random(number)
    base = {"g": _between(chance, 20, 5000), "f": _between(chance, 2e-4, 0.2)}
    base["u"] = base["f"] * chance.uniform(0.05, 1.0)
    hardware = _hardware(chance)
    levels = chance.sample(list(Level), k=chance.randint(1, 3))
    levels += [Level.SCRIPT_ARGS] if chance.random() < 0.6 else []
    evidence = {
        level: [_run(chance, base, hardware) for _ in range(chance.randint(1, 9))]
        for level in Level
        if level in levels
    }
    job = Submission(
        user_name="ada",
        partition="p",
        script="#!/bin/sh\nsrun python train.py\n",
        cpus_per_task=chance.choice((None, 1, 2, 4, 6)),
        num_tasks=1,
        mem_per_cpu_mib=chance.choice((None, 1000, 4000)),
        tres_per_node=chance.choice(GPUS),
    )
    rules = PartitionRules(
        cpus_per_node=chance.choice((8, 32, 128)),
        mem_per_node_mib=64_000,
        keeps_cores=number % 4 > 0,
    )
    known = rules if chance.random() < 0.9 else None
    factor = chance.choice((1.0, 1.0, 0.7, 2.5))
    context = DecisionContext(settings=SETTINGS, evidence=evidence, rules=known, factor=factor)
    return job, context


def _rounded(prediction: Prediction | None) -> list[Any] | None:
    """Six digits: another machine's exp and log may differ in the last ones."""
    if prediction is None:
        return None
    rates, bounds, other = [prediction.samples_per_s], [prediction.interval], prediction.elsewhere
    if other is not None:
        rates, bounds = [*rates, other.samples_per_s], [*bounds, other.interval]
    told = [(rate, one.low, one.high) for rate, one in zip(rates, bounds, strict=True)]
    return [f"{value:.6g}" for one in told for value in one]


def decided(number: int) -> list[Any]:
    """All that a decision says but its words."""
    job, context = made_up(number)
    decision = decide(job, context).decision
    assert decision is not None
    shapes = [(one.cpus_per_task, one.num_workers) for one in (decision.before, decision.after)]
    rates = [_rounded(one) for one in (decision.predicted_before, decision.predicted_after)]
    return [decision.action, *map(list, shapes), *rates]


def test_decisions_are_the_same_as_before() -> None:
    """Whatever was asked before, and in whatever order: nothing kept changes an answer."""
    expected = json.loads(FILE.read_text())
    assert len(expected) == COUNT
    backwards = [decided(number) for number in reversed(range(COUNT))]
    assert backwards[::-1] == expected
    assert [decided(number) for number in range(0, COUNT, 7)] == expected[::7]


def test_the_made_up_submissions_are_of_every_kind() -> None:
    """Changed and left, known and unknown: else they would show nothing."""
    expected = json.loads(FILE.read_text())
    actions = [one[0] for one in expected]
    assert min(actions.count("change"), actions.count("leave")) > COUNT // 20
    assert sum(one[3] is None for one in expected) > COUNT // 20
    assert sum(one[4] is not None and len(one[4]) > 3 for one in expected) > COUNT // 20


if __name__ == "__main__":
    rows = ",\n".join(json.dumps(decided(number)) for number in range(COUNT))
    FILE.write_text(f"[\n{rows}\n]\n")
