"""Shared by tests of ingest: examples and helpers."""

from dataclasses import replace
from typing import Any

from slurm_ext.core.actions import Action
from slurm_ext.core.records import Decision, Interval, Level, Mode, Prediction, Shape
from slurm_ext.history.ingest.proposals import Proposal

TOKEN = "d1-0123456789abcdef"


def predicted(rate: float) -> Prediction:
    """Of one shape; each of its figures is another number."""
    return Prediction(
        shape=Shape(cpus_per_task=1, num_workers=1),
        samples_per_s=rate,
        interval=Interval(rate - 1, rate + 2, 0.8),
        bottleneck=f"b{rate:.0f}",
        level=Level.SCRIPT,
        runs=3,
    )


DECISION = Decision(
    action="change",
    reason="why",
    before=Shape(cpus_per_task=11, num_workers=12),
    after=Shape(cpus_per_task=13, num_workers=14),
    predicted_before=predicted(50.0),
    predicted_after=replace(predicted(100.0), level=Level.KIND, runs=4),
)


def proposal(token: str = TOKEN, **changes: Any) -> Proposal:
    """A proposal whose figures all differ."""
    values: dict[str, Any] = {"decided_s": 1000.0, "mode": Mode.ACT, "decision": DECISION}
    return Proposal(token=token, **{**values, **changes})


def action(name: str, **changes: Any) -> Action:
    """Something that was done to job 7."""
    values: dict[str, Any] = {"at_s": 1.0, "kind": "queue", "mode": "act", "subject": "7"}
    return Action(move_id=name, **{**values, "job_id": 7, "done": "hold", "why": "w", **changes})
