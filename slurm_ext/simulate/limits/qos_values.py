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
from slurm_ext.simulate.limits.qos import DENY, FACTOR_SAFE, NO_DECAY, OVER_PARTITION, Qos
from slurm_ext.simulate.planning.preemption_conf import MODES, REPLAYED

OF_CLUSTER = "cluster"  # PreemptMode: as slurm.conf has it
ELSEWHERE = (
    "Priority",
    "Flags",
    "Description",
    "ID",
    "Preempt",
    "PreemptMode",
    "PreemptExemptTime",
    "GraceTime",
    "UsageFactor",
)
REPLAYED_FLAGS = {DENY, OVER_PARTITION, NO_DECAY, FACTOR_SAFE}
REPLAYED_MODES = {OF_CLUSTER, *REPLAYED}


def qos_of(name: str, values: Mapping[str, str]) -> Qos:
    """One QOS of its columns. Raises ValueError, naming the column."""
    columns = columns_that_say(values)
    flags = _words(columns.get("Flags", "").lower())
    limits = limits_of(columns)
    exempt, modes = columns.get("PreemptExemptTime"), _words(columns.get("PreemptMode", "").lower())
    unknown = [f"flag {flag}" for flag in sorted(flags - REPLAYED_FLAGS)]
    unknown += [f"PreemptMode={word}" for word in sorted(modes - REPLAYED_MODES)]
    return Qos(
        name=name,
        priority=float(number("Priority", columns.get("Priority", "0"))),
        flags=flags,
        sums={limit: value for limit, value in limits.items() if limit[0] in SUMS},
        each={limit: value for limit, value in limits.items() if limit[0] not in SUMS},
        preempts=_words(columns.get("Preempt", "")),
        preempt_mode=next((mode for mode in MODES if mode in modes), ""),
        usage_factor=factor("UsageFactor", columns.get("UsageFactor", "1")),
        exempt_s=None if exempt is None else seconds("PreemptExemptTime", exempt),
        grace_s=_grace_s(columns.get("GraceTime", "0")),
        left_out=(*left_out(columns, ELSEWHERE), *unknown),
    )


def _grace_s(text: str) -> float:
    """GraceTime: a time, or in a dump its seconds alone. Raises ValueError."""
    return float(seconds("GraceTime", text) if ":" in text else number("GraceTime", text))


def _words(text: str) -> frozenset[str]:
    return frozenset(word.strip() for word in text.split(",") if word.strip())
