"""One job beside several, from what each of them does to it alone.

Slowdowns add: beside partners at pair speeds s_i a job runs at 1 / (1 + sum(1/s_i - 1)), which is
exact where a device is sliced by time. The bound multiplies the pairs' bounds, which is never
above the sum's: what several do together was seen to exceed what each does (NTUA's counts of one
kind of neighbour, contrib/bench/colocation_ntua.py).
"""

from collections.abc import Sequence
from math import inf, prod

from slurm_ext.facts.sharing import Evidence, Speed

LEAST = 0.01  # a speed below it is not told apart from standing still


def compose(pairs: Sequence[Speed]) -> Speed:
    """The speed beside all of `pairs`' partners at once; evidence is the weakest of theirs."""
    if not pairs:
        return Speed(mean=1.0, low=1.0, high=1.0, evidence=Evidence.PAIR)
    if len(pairs) == 1:
        return pairs[0]
    return Speed(
        mean=added([one.mean for one in pairs]),
        low=max(LEAST, prod(one.low for one in pairs)),
        high=min(one.high for one in pairs),
        evidence=weakest(pairs),
        runs=min(one.runs for one in pairs),
    )


def added(speeds: Sequence[float]) -> float:
    """The speed whose slowdown beyond 1 is the sum of theirs."""
    return 1.0 / max(1.0 / 1.5, 1.0 + sum(_extra(one) for one in speeds))


def weakest(pairs: Sequence[Speed]) -> Evidence:
    """The evidence that the least is known from."""
    order = list(Evidence)
    return max((one.evidence for one in pairs), key=order.index)


def _extra(speed: float) -> float:
    return 1.0 / speed - 1.0 if speed > 0 else inf
