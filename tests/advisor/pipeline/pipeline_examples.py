"""Shared by tests of pipeline: examples and helpers."""

from typing import Any

from slurm_ext.advisor.sharing.terms import SharingDecision
from slurm_ext.core.records import (
    Decision,
    Edits,
    Interval,
    Level,
    Mode,
    Prediction,
    Shape,
)

ONE, TWO = (Shape(cpus_per_task=n, num_workers=n - 1) for n in (1, 2))


def predicted(rate: float, low: float = 0.0, high: float = 0.0) -> Prediction:
    """A prediction with these figures."""
    return Prediction(
        shape=ONE,
        samples_per_s=rate,
        interval=Interval(low, high),
        bottleneck="data",
        level=Level.SCRIPT,
        runs=2,
    )


def decision(before: float | None = 10.0, after: float | None = 20.0, **values: Any) -> Decision:
    """A change from one CPU to two, with predicted rates."""
    plain: dict[str, Any] = {
        "action": "change",
        "reason": "it is so",
        "before": ONE,
        "after": TWO,
        "predicted_before": None if before is None else predicted(before),
        "predicted_after": None if after is None else predicted(after, 18.0, 22.0),
    }
    return Decision(**{**plain, **values})


def sharing(**values: Any) -> SharingDecision:
    """A job that shares and runs at 88 % at least, in act mode."""
    plain: dict[str, Any] = {
        "mode": Mode.ACT,
        "share": True,
        "why": "",
        "floor": 0.8,
        "gres": "mps:50",
        "worst": 0.88,
        "usual": 0.96,
        "edits": Edits(gres="mps:50", env={"DLQUEUE_SHARED": "mps:50"}),
    }
    return SharingDecision(**{**plain, **values})
