"""The smooth minimum of ceilings: below its smallest term, and with each one's share in it."""

from math import inf
from typing import Any

from slurm_ext.model.floats import Arithmetic
from slurm_ext.model.throughput.curve.costs import SHARPNESS


def smooth_min(
    m: Arithmetic, sharpness: float, one: float, other: float, third: float = inf
) -> tuple[float, float, float, float]:
    """The smooth minimum, and each ceiling's share in it; `third` is one figure."""
    lowest = m.minimum(one, other)
    if third < inf:
        lowest = m.minimum(lowest, third)
    # Relative to the lowest, so that no power overflows whatever the units are.
    first = _power(lowest / one, sharpness)
    second = _power(lowest / other, sharpness)
    total, last = first + second, 0.0
    if third < inf:
        last = _power(lowest / third, sharpness)
        total, last = total + last, last / (total + last)
    return lowest * total ** (-1 / sharpness), first / total, second / total, last


def _power(share: Any, sharpness: float) -> Any:
    """The share to this power; most are SHARPNESS, and five products cost arrays a fifth."""
    if sharpness is not SHARPNESS:
        return share**sharpness
    cubed = share * share * share
    return (cubed * cubed) * (cubed * cubed)
