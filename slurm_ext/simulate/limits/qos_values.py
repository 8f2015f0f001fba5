"""One QOS of its columns: limits, flags, and what preemption takes from it."""

from collections.abc import Mapping

from slurm_ext.simulate.limits.limit import SUMS
from slurm_ext.simulate.limits.limit_values import (
    columns_that_say,
    factor,
    left_out,
    limits_of,
    number,
    seconds,
)
from slurm_ext.simulate.limits.qos import DENY, NO_DECAY, OVER_PARTITION, Qos

ELSEWHERE = (
    "Priority",
    "Flags",
    "Description",
    "ID",
    "Preempt",
    "PreemptMode",
    "PreemptExemptTime",
    "UsageFactor",
)
REPLAYED_FLAGS = {DENY, OVER_PARTITION, NO_DECAY}
OF_CLUSTER = "cluster"  # PreemptMode: as slurm.conf has it


def qos_of(name: str, values: Mapping[str, str]) -> Qos:
    """One QOS of its columns. Raises ValueError, naming the column."""
    told = columns_that_say(values)
    flags = _words(told.get("Flags", "").lower())
    limits = limits_of(told)
    exempt, mode = told.get("PreemptExemptTime"), told.get("PreemptMode", OF_CLUSTER).lower()
    unknown = (f"flag {flag}" for flag in sorted(flags - REPLAYED_FLAGS))
    return Qos(
        name=name,
        priority=float(number("Priority", told.get("Priority", "0"))),
        flags=flags,
        sums={limit: value for limit, value in limits.items() if limit[0] in SUMS},
        each={limit: value for limit, value in limits.items() if limit[0] not in SUMS},
        preempts=_words(told.get("Preempt", "")),
        preempt_mode="" if mode == OF_CLUSTER else mode,
        usage_factor=factor("UsageFactor", told.get("UsageFactor", "1")),
        exempt_s=None if exempt is None else seconds("PreemptExemptTime", exempt),
        left_out=(*left_out(told, ELSEWHERE), *unknown),
    )


def _words(text: str) -> frozenset[str]:
    return frozenset(word.strip() for word in text.split(",") if word.strip())
