"""`decisions.jsonl` in the allocator's folder: a line for each new decision and limit of reads."""

import json
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from slurm_ext.policy.allocator.hysteresis import Retune

MAX_BYTES = 1 << 20


def append(path: Path, *, acted: bool, **entry: Any) -> None:
    """Append one line; at MAX_BYTES the file begins again, the old one is `*.jsonl.1`. OSError."""
    with suppress(FileNotFoundError):
        if path.stat().st_size > MAX_BYTES:
            path.replace(path.with_suffix(".jsonl.1"))
    line = json.dumps({"t_s": round(time.time(), 3), "acted": acted, **entry})
    with path.open("a", encoding="utf-8") as file:
        file.write(line + "\n")


def decision_json(decision: Retune) -> Mapping[str, Any]:
    """A decision as its line has it."""
    points = decision.allocation.points
    return {
        "reason": decision.reason,
        "gain": decision.gain,
        "offers": {key: asdict(point) for key, point in points.items()},
        "reasons": dict(decision.allocation.reason),
    }
