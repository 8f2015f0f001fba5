"""Rank of a waiting job as one integer: the rule's key, then the job's number.

Jobs are numbered by submission (ties as drawn), so that of equal keys the earlier goes first.
"""

from collections.abc import Sequence

import numpy as np

from slurm_ext.simulate.trace.columns import Column

NUMBER_BITS = 32
_NUMBERS = (1 << NUMBER_BITS) - 1
_BELOW_ZERO = np.int64((1 << 63) - 1)  # a negative float's bits run the other way


def ranks(keys: Column, numbers: Sequence[int]) -> list[int]:
    """Ranks that sort as (key, number) do; keys are finite."""
    bits = (keys + 0.0).view(np.int64)
    rising = np.where(bits < 0, bits ^ _BELOW_ZERO, bits).tolist()
    return [key << NUMBER_BITS | number for key, number in zip(rising, numbers, strict=True)]


def number_of(rank: int) -> int:
    """The number of the job that has this rank."""
    return rank & _NUMBERS
