"""Preemption as a slurm.conf has it: PreemptType, PreemptMode, PreemptExemptTime, partitions."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from slurm_ext.core.errors import InputError
from slurm_ext.simulate.planning.slurm_conf import Pairs, global_values, number, read_lines, seconds

BY_QOS, BY_PARTITION = "preempt/qos", "preempt/partition_prio"
NONE, OFF, REQUEUE, CANCEL = "preempt/none", "off", "requeue", "cancel"
REPLAYED = (OFF, REQUEUE, CANCEL)
MODES = (*REPLAYED, "suspend")
GANG = "gang"  # lets jobs take turns, too
EXEMPT, GRACE = "preemptexempttime", "gracetime"


@dataclass(frozen=True, slots=True, kw_only=True)
class PreemptingPartition:
    """A partition's PriorityTier, PreemptMode and GraceTime."""

    tier: float = 1.0
    mode: str = ""  # empty: as PreemptMode of the cluster
    grace_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PreemptionConf:
    """`exempt_s`: for how long nobody takes a started job's place."""

    by: str
    mode: str
    exempt_s: float = 0.0
    partitions: Mapping[str, PreemptingPartition] = field(default_factory=dict)
    usual: str = ""  # the partition of jobs that name none
    left_out: tuple[str, ...] = ()


def read_preemption(path: Path) -> PreemptionConf | None:
    """The preemption of a slurm.conf; None: it has none. Raises InputError, naming the key."""
    values = global_values(path)
    by = values.get("preempttype", NONE).lower()
    if by == NONE:
        return None
    if by not in (BY_QOS, BY_PARTITION):
        raise InputError(str(path), f"PreemptType is {by}: expected {BY_QOS} or {BY_PARTITION}")
    mode = _mode(values, OFF)
    lines = [pairs for _, pairs in read_lines(path) if "partitionname" in pairs]
    partitions = {
        pairs["partitionname"]: PreemptingPartition(
            tier=number(pairs, "prioritytier", 1.0, path),
            mode=_mode(pairs, ""),
            grace_s=_grace_s(pairs, path),
        )
        for pairs in lines
    }
    usual = [pairs["partitionname"] for pairs in lines if pairs.get("default", "").lower() == "yes"]
    words = {word for pairs in (values, *lines) for word in _words(pairs)}
    return PreemptionConf(
        by=by,
        mode=mode,
        exempt_s=_exempt_s(values, path),
        partitions=partitions,
        usual=(usual or [*partitions, ""])[0],
        left_out=tuple(f"PreemptMode={word}" for word in sorted(words - {*REPLAYED, GANG})),
    )


def _mode(values: Pairs, usual: str) -> str:
    """The fate of jobs that give way."""
    return next((word for word in _words(values) if word in MODES), usual)


def _words(values: Pairs) -> list[str]:
    return [word.strip() for word in values.get("preemptmode", "").lower().split(",") if word]


def _grace_s(pairs: Pairs, path: Path) -> float:
    """Seconds, or a time with colons."""
    reads = seconds if ":" in pairs.get(GRACE, "") else number
    return reads(pairs, GRACE, 0.0, path)


def _exempt_s(values: Pairs, path: Path) -> float:
    """Seconds; -1: none."""
    if values.get(EXEMPT) == "-1":
        return 0.0
    return seconds(values, EXEMPT, 0.0, path)
