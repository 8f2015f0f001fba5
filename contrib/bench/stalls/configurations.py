"""The trainings of `stalls`: what each step is made of, by injected seconds."""

import random
from dataclasses import asdict, dataclass, replace
from typing import Any

LAYERS, LAYER_BYTES = 8, 1 << 20
BATCH = 8
JITTER = 0.2  # of an injected cost: each seed draws others


@dataclass(frozen=True, slots=True, kw_only=True)
class Injected:
    """One training: seconds of a sample in its workers, of a step in its ranks, and its link."""

    compute_s: float = 0.096  # asleep in forward and backward, a third and two thirds
    ranks: int = 1
    mbit: float = 0.0  # of the link; 0: the ranks do not synchronise
    workers: int = 1
    sleep_s: float = 0.0  # of a sample: as if storage were slow
    spin_s: float = 0.0  # of a sample: CPU
    one_core: bool = False  # all workers on one core
    init_s: float = 0.0  # of a worker's start
    batches: int = 0  # of an epoch; 0: all steps are one epoch
    slow_s: float = 0.0  # of a step more in the last rank

    def drawn(self, seed: int) -> "Injected":
        """The same with costs of this seed; seed 0: as they stand here."""
        if seed == 0:
            return self
        draw = random.Random(seed)
        costs = ("compute_s", "sleep_s", "spin_s", "init_s", "slow_s")
        return replace(
            self, **{c: getattr(self, c) * draw.uniform(1 - JITTER, 1 + JITTER) for c in costs}
        )

    def json(self) -> dict[str, Any]:
        """Fields by name, for the training's command line."""
        return asdict(self)


CONFIGURATIONS = {
    "healthy": Injected(workers=2, sleep_s=0.002),
    "fetch": Injected(workers=1, sleep_s=0.025),
    "fetch_of_four": Injected(workers=4, sleep_s=0.08, compute_s=0.06),
    "at_home": Injected(workers=0, sleep_s=0.006, spin_s=0.003),
    "preparation": Injected(workers=1, spin_s=0.02),
    "cores": Injected(workers=4, spin_s=0.02, one_core=True),
    "fetch_and_preparation": Injected(workers=1, sleep_s=0.012, spin_s=0.015),
    "starting": Injected(workers=2, sleep_s=0.002, init_s=0.5, batches=12),
    "link": Injected(ranks=2, mbit=800),
    "slow_link": Injected(ranks=2, mbit=400),
    "slow_rank": Injected(ranks=2, mbit=1600, slow_s=0.05),
    "link_and_fetch": Injected(ranks=2, mbit=800, workers=1, sleep_s=0.04),
}
