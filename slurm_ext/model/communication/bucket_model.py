"""A training's time with any bucket sizes, predicted from its runs with some. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from slurm_ext.model.communication.all_reduce import Gradient, Link, buckets_of, exposed_s
from slurm_ext.model.communication.partition import best_sizes

WORTH = 0.01  # faster by a list of sizes than by one: below, one is taken
ONE_KIB = tuple(256 * 2**power for power in range(10))
"""Single sizes that are weighed, 256 KiB to 128 MiB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketModel:
    """Prediction of a batch's time for any bucket sizes, from runs with some."""

    gradients: Sequence[Gradient]
    link: Link
    before_s: float  # of a batch with the buckets of now
    exposed_s: float  # of a pass with them
    syncs: float  # passes for each batch

    def step_s(self, caps_kib: Sequence[float]) -> float:
        """Seconds of a batch with these sizes."""
        after_s = exposed_s(buckets_of(self.gradients, caps_kib), self.link)
        return self.before_s + self.syncs * (after_s - self.exposed_s)

    def best(self, *, lists: bool) -> list[float]:
        """The sizes that are fastest: one for all, or, where torch takes it, a list of them."""
        cap = min(ONE_KIB, key=lambda kib: (self.step_s([kib]), -kib))
        several = [float(size // 1024) for size in best_sizes(self.gradients, self.link)]
        worth = lists and self.step_s(several) < (1 - WORTH) * self.step_s([cap])
        return several if worth else [float(cap)]
