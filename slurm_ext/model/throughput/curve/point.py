"""One point of the curve: its rate, and which ceiling gives it."""

from dataclasses import dataclass

from slurm_ext.model.throughput.curve.costs import SHARPNESS

STALLED = 0.10  # share of the time that the accelerator waits for data: worth an advice


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """The curve at one worker and core count, with each ceiling's part in it.

    CrowdedShares are d log X / d log ceiling, and add up to 1.
    """

    samples_per_s: float
    supply_samples_per_s: float  # what the workers would deliver to an accelerator without end
    accelerator: float
    wall: float
    cpu: float
    storage: float
    contention: float = 0.0  # the part of the loop's time that is waiting for a busy core
    in_turns: bool = False  # loading and training never overlap
    on_cpu: bool = False  # the accelerator's part is that of a step on CPUs

    @property
    def stalled(self) -> float:
        """The share of the time in which the accelerator waits for data."""
        return 1 - self.accelerator ** (1 if self.in_turns else 1 / SHARPNESS)

    @property
    def limit(self) -> str:
        """The ceiling that binds: accelerator, step, storage or data (core/advice/words.py)."""
        if self.stalled < STALLED:
            return "step" if self.on_cpu else "accelerator"
        return "storage" if self.storage > self.wall + self.cpu else "data"
