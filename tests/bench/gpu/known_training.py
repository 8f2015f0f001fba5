"""A training whose clocks are known: what the rows make of them can be told to the digit."""

from collections.abc import Mapping
from typing import Any

from contrib.bench.gpu.trainings import Trained

STEP_S = 0.05


class KnownTraining:
    """As `Training`: a step of 50 ms, and JPEGs of 200 ms a batch and worker."""

    PROBE_COSTS = 0.0  # of a step
    PROBE_MISSES_S = 0.0  # of a wait
    SUMMARY: Mapping[str, Any] = {}

    def __init__(self, _here: object, probe: Mapping[str, str] | None = None) -> None:
        self.probe = probe
        self.batch, self.way, self.wait_s = 64, "probed", 0.0

    def hear(self) -> dict[str, Any]:
        """It is ready."""
        return {}

    def workers(self, asked: int) -> int:
        """Workers that work: the directive's, or four that the tuner found."""
        told = self.probe or {}
        return int(told.get("DLQUEUE_NUM_WORKERS", "4" if "DLQUEUE_AUTOTUNE" in told else asked))

    def begin(
        self, _seconds: float, source: str, workers: int, *, way: str = "probed", batch: int = 64
    ) -> None:
        """From now on it trains."""
        self.batch, self.way = batch, way
        made_s = 0.2 / self.workers(workers) if source == "jpeg" else 0.0
        self.wait_s = max(0.0, made_s - STEP_S)

    def end(self) -> Trained:
        """A second of ten batches, whatever it was told."""
        step_s = STEP_S * (1 + (self.PROBE_COSTS if self.way != "plain" else 0.0))
        told = {"batches": 10.0, "wait_s": self.wait_s - self.PROBE_MISSES_S, "step_s": step_s}
        slowed = 2.0 if self.way == "profiled" else 1.0
        seen = {"waits": 10, "wait_s": 2 * self.wait_s, "busy_s": 2 * STEP_S, "by_kernels": True}
        return Trained(
            batches=10,
            samples=10 * self.batch,
            wall_s=10 * slowed * (self.wait_s + step_s),
            wait_s=self.wait_s,
            step_s=step_s,
            marks_wait_s=self.wait_s if self.way == "marked" else None,
            probe=None if self.way == "plain" or self.probe is None else told,
            profile=seen if self.way == "profiled" else None,
        )

    def run(self, *order: Any, **more: Any) -> Trained:
        """Train to the end."""
        self.begin(*order, **more)
        return self.end()

    def summary(self) -> Mapping[str, Any]:
        """What the probe wrote."""
        return self.SUMMARY

    def __enter__(self) -> "KnownTraining":
        return self

    def __exit__(self, *_: object) -> None:
        return None
