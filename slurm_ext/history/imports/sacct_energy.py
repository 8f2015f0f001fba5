"""Pure: sacct's ConsumedEnergy of a job, as a counter of each of its nodes.

What AcctGatherEnergyType measures is whole nodes (slurm.conf(5), acct_gather.conf(5)), whoever
worked there, and is laid equally to the job's nodes. Slurm says 0 where it measures nothing.
"""

import re
from collections.abc import Mapping
from typing import Any

from slurm_ext.core.units import parse_tres
from slurm_ext.history.ingest.rows import ALL

COLUMN, ROUNDED = "ConsumedEnergyRaw", "ConsumedEnergy"
LARGEST_J = 1e15  # thirty terawatts for a second: beyond, it is Slurm's "no value" (64 bits)
_JOULES = re.compile(r"(\d+(?:\.\d+)?)([KMGTP]?)", re.ASCII)
_THOUSANDS = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}


def counters_of(line: Mapping[str, str], nodes: int) -> list[dict[str, Any]]:
    """One counter, or none where nothing was measured. Raises ValueError where it is no energy."""
    for name, text in _said(line):
        joules = _joules(text, name)
        if 0 < joules <= LARGEST_J:
            source = f"sacct/{ROUNDED}"
            return [{"name": ALL, "unit": "J", "source": source, "value": joules / nodes}]
    return []


def _said(line: Mapping[str, str]) -> list[tuple[str, str]]:
    """The exact one before what sacct rounded; AllocTRES where a file has neither column."""
    columns = [(name, line.get(name, "").strip()) for name in (COLUMN, ROUNDED)]
    in_tres = parse_tres(line.get("AllocTRES") or "").get("energy", "")
    return [(name, text) for name, text in (*columns, ("AllocTRES energy", in_tres)) if text]


def _joules(text: str, name: str) -> float:
    match = _JOULES.fullmatch(text)
    if match is None:
        raise ValueError(f"{name} is {text!r}: expected joules, such as 12345678 or 12.35M")
    return float(match[1]) * _THOUSANDS[match[2]]
