"""Arithmetic of single figures, by numpy's names: a formula takes either of the two."""

import math
from collections.abc import Callable
from typing import Protocol, cast


class Arithmetic(Protocol):
    """Operations that differ between floats and arrays; numpy has all of them."""

    minimum: Callable[[float, float], float]
    maximum: Callable[[float, float], float]
    hypot: Callable[[float, float], float]
    where: Callable[[bool, float, float], float]
    ceil: Callable[[float], float]
    sqrt: Callable[[float], float]
    log: Callable[[float], float]
    log2: Callable[[float], float]


class _Floats:
    """As quick for a single figure as math is."""

    minimum, maximum, hypot = staticmethod(min), staticmethod(max), staticmethod(math.hypot)
    ceil, sqrt = staticmethod(math.ceil), staticmethod(math.sqrt)
    log, log2 = staticmethod(math.log), staticmethod(math.log2)

    @staticmethod
    def where(condition: bool, one: float, other: float) -> float:
        """The one or the other."""
        return one if condition else other


FLOATS = cast(Arithmetic, _Floats())
