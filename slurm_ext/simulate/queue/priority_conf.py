r"""Priorities of a slurm.conf: the weights of priority/multifactor, and its partitions.

Syntax: slurm.conf(5) (keys in any case, `#` to the line's end, `\` continues a line, `Include`).
Units: seconds; weights as written. What has a weight and is not replayed is in `left_out`.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from slurm_ext.core.errors import InputError, unreadable
from slurm_ext.core.units import parse_minutes

DAY_S = 86400.0
WEIGHTS = {"age": "age", "fairshare": "fairshare", "jobsize": "job_size", "partition": "partition"}
NOT_REPLAYED = ("PriorityWeightAssoc", "PriorityWeightQOS")
MOST_INCLUDED = 4  # files in one another
GPU_TRES = "gres/gpu"
_PAIR = re.compile(r'(?<!\S)(\w+)[ \t]*=[ \t]*("[^"]*"|\S+)')
_COMMENT = re.compile(r"(?<!\\)#.*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """PriorityTier goes before any priority; PriorityJobFactor is a part of it."""

    tier: float = 1.0
    factor: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PriorityConf:
    """Weights by the names of WEIGHTS, and a GPU's; how usage decays; how often all is computed."""

    weights: Mapping[str, float] = field(default_factory=dict)
    gpu_weight: float = 0.0
    max_age_s: float = 7 * DAY_S
    half_life_s: float = 7 * DAY_S
    period_s: float = 300.0
    favours_small: bool = False
    partitions: Mapping[str, Partition] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()


def read_priorities(path: Path) -> PriorityConf:
    """The priorities of a slurm.conf. Raises InputError, naming the file and the key."""
    values: dict[str, str] = {}
    partitions: dict[str, Partition] = {}
    for source, pairs in _lines(path, depth=0):
        if "partitionname" in pairs:
            partitions[pairs["partitionname"]] = Partition(
                tier=_number(pairs, "prioritytier", 1.0, source),
                factor=_number(pairs, "priorityjobfactor", 1.0, source),
            )
        else:
            values |= pairs
    return _conf(values, partitions, path)


def _conf(
    values: Mapping[str, str], partitions: Mapping[str, Partition], path: Path
) -> PriorityConf:
    kind = values.get("prioritytype", "priority/multifactor")
    if kind.lower() != "priority/multifactor":
        raise InputError(str(path), f"PriorityType is {kind}: multifactor replays no other")
    tres, others = _tres(values.get("priorityweighttres", ""), path)
    ignored = [name for name in NOT_REPLAYED if _number(values, name.lower(), 0.0, path)]
    return PriorityConf(
        weights={
            name: _number(values, f"priorityweight{key}", 0.0, path)
            for key, name in WEIGHTS.items()
        },
        gpu_weight=tres,
        max_age_s=_seconds(values, "prioritymaxage", 7 * DAY_S, path),
        half_life_s=_seconds(values, "prioritydecayhalflife", 7 * DAY_S, path),
        period_s=_seconds(values, "prioritycalcperiod", 300.0, path) or 300.0,
        favours_small=values.get("priorityfavorsmall", "no").lower() == "yes",
        partitions=dict(partitions),
        left_out=(*ignored, *(f"PriorityWeightTRES {name}" for name in others)),
    )


def _tres(text: str, path: Path) -> tuple[float, list[str]]:
    """The weight of a GPU, and the names of other resources that have one."""
    weights = dict(part.split("=", 1) for part in text.lower().split(",") if "=" in part)
    values = {name: _number(weights, name, 0.0, path) for name in weights}
    return values.get(GPU_TRES, 0.0), [name for name in values if name != GPU_TRES and values[name]]


def _number(values: Mapping[str, str], key: str, usual: float, path: Path) -> float:
    text = values.get(key, "")
    if text and not re.fullmatch(r"[0-9]{1,10}(\.[0-9]{1,9})?", text):
        raise InputError(str(path), f"{key} is {text[:40]!r}: expected a number from 0 on")
    return float(text) if text else usual


def _seconds(values: Mapping[str, str], key: str, usual: float, path: Path) -> float:
    if key not in values:
        return usual
    try:
        minutes = parse_minutes(values[key])
    except ValueError:
        minutes = None
    if minutes is None:
        raise InputError(str(path), f"{key} is {values[key][:40]!r}: expected a time such as 7-0")
    return minutes * 60


def _lines(path: Path, depth: int) -> Iterator[tuple[Path, dict[str, str]]]:
    """Keys and values of each line, those of included files in their place."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace").replace("\\\n", " ")
    except OSError as error:
        raise unreadable(str(path), error) from None
    for line in text.splitlines():
        bare = _COMMENT.sub("", line)
        if match := re.match(r"\s*include\s+(\S+)", bare, re.IGNORECASE):
            if depth > MOST_INCLUDED:
                raise InputError(str(path), f"{match[1]}: files include one another too deeply")
            yield from _lines(path.parent / match[1].strip('"'), depth + 1)
        else:
            yield path, {key.lower(): value.strip('"') for key, value in _PAIR.findall(bare)}
