"""Facts of a job at its submission, as numbers: the prior's input.

Names are hashed into a fixed number of signed slots (feature hashing): any user, partition or
program has a place without a dictionary that would have to travel with the model.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from math import log1p

from slurm_ext.core.records import Level

SLOTS = 128
WIDTH = SLOTS + 1
NAMES = (*(f"hashed_{slot}" for slot in range(SLOTS)), "log1p_gpus")

_KEYS = (Level.SCRIPT, Level.USER_NAME, Level.KIND)


@dataclass(frozen=True, slots=True, kw_only=True)
class PriorInput:
    """Facts that a submission and a row of history both have."""

    user: str | None = None
    partition: str | None = None
    gpus: int = 0  # of one node, a part of one included: what a run record lists
    keys: Mapping[Level, int | None]


def features(inputs: PriorInput) -> dict[int, float]:
    """Return slot → value of one job; other slots are zero."""
    values: dict[int, float] = {SLOTS: log1p(max(0, inputs.gpus))}
    for word in _words(inputs):
        digest = int.from_bytes(blake2b(word.encode("utf-8", "replace"), digest_size=8).digest())
        slot, sign = digest % SLOTS, 1.0 if digest >> 63 else -1.0
        values[slot] = values.get(slot, 0.0) + sign
    return values


def _words(inputs: PriorInput) -> list[str]:
    words = [
        f"{level.name}={inputs.keys[level]}"
        for level in _KEYS
        if inputs.keys.get(level) is not None
    ]
    if inputs.user:
        words.append(f"user={inputs.user}")
    if inputs.partition:
        words.append(f"partition={inputs.partition}")
    return words
