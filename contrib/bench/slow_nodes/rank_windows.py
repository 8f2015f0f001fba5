"""Made-up windows of ranks' own step times: nobody, one rank, or now this and now that is slow."""

from collections import Counter
from typing import Any

import numpy as np

from contrib.bench.common.arrays import Array
from slurm_ext.core.stalls.stragglers import Straggling, stragglers

KINDS = (Straggling.NONE, Straggling.FIXED, Straggling.MOVING)
SLOW = (0.08, 0.3)  # log, from, to


def ranks_right(dice: np.random.Generator, noise: Array, trials: int) -> dict[str, Any]:
    """Share of jobs whose kind of straggling is named right, and what was taken for what.

    The baseline calls the rank with the longest mean slow hardware wherever that exceeds 5 %.
    """
    seen: Counter[str] = Counter()
    right = plain = 0
    for trial in range(trials):
        kind = KINDS[trial % len(KINDS)]
        windows = _windows(dice, noise, kind)
        said = stragglers(windows).kind
        seen[f"{kind} as {said}"] += 1
        right += said is kind
        plain += _longest_mean(windows) is kind
    baseline = {"longest_mean": plain / trials}
    return {"right": right / trials, "baselines": baseline, "seen": dict(sorted(seen.items()))}


def _windows(dice: np.random.Generator, noise: Array, kind: Straggling) -> list[dict[int, float]]:
    ranks, count = int(dice.choice([2, 4, 8])), int(dice.integers(10, 40))
    fixed, slower = int(dice.integers(ranks)), float(dice.uniform(*SLOW))
    small = noise / 4  # a window is a mean over many steps
    windows = []
    for _ in range(count):
        own = {rank: float(np.exp(dice.choice(small))) for rank in range(ranks)}
        if kind is not Straggling.NONE:
            rank = fixed if kind is Straggling.FIXED else int(dice.integers(ranks))
            own[rank] *= float(np.exp(slower))
        windows.append(own)
    return windows


def _longest_mean(windows: list[dict[int, float]]) -> Straggling:
    means = np.array([[one[rank] for rank in sorted(one)] for one in windows]).mean(axis=0)
    behind = means.max() / float(np.median(means)) - 1 > 0.05
    return Straggling.FIXED if behind else Straggling.NONE
