"""A trace: submissions and their run times, as columns of one length.

| column | unit | wanted | what it is |
|---|---|---|---|
| job | | yes | its id, once |
| submit_s | s | yes | when it was submitted, since the first submission |
| eligible_s | s | no | when it could first start (dependency, begin time): it waits since then |
| duration_s | s | yes | how long it ran, over 0 |
| gpus | | yes | GPUs that it held, 1 or more; processors where the trace has no GPUs |
| cpus | | no | CPUs; 0: not known |
| user, vc | | no | who, and in which virtual cluster (partition): numbers into `users`, `vcs` |
| account | | no | who pays: a number into `accounts` |
| gpu_type | | no | model that it asks for: a number into `gpu_types`; empty: any |
| qos | | no | its QOS: a number into `qoses`; empty: the usual one |
| limit_s | s | no | the time limit it asked for; NaN: none |
| estimate_s | s | no | a prediction of its duration, made before it ran; NaN: none |

Whatever else a file has, a policy of one's own may see as text (`more`), but for what only a job's
end tells (formats.py).
"""

import csv
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slurm_ext.core.errors import InputError, unreadable

Column = NDArray[Any]


NUMBERS = ("submit_s", "duration_s", "limit_s", "estimate_s")
COUNTS = ("gpus", "cpus", "user", "vc", "account", "gpu_type", "qos")
COLUMNS = (*NUMBERS, *COUNTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """Jobs by submission time; `repairs` counts what was changed in the file or left out of it."""

    source: str
    job: tuple[str, ...]
    submit_s: Column
    duration_s: Column
    gpus: Column
    cpus: Column
    user: Column
    vc: Column
    limit_s: Column
    estimate_s: Column
    account: Column
    gpu_type: Column
    qos: Column
    users: tuple[str, ...] = ("",)
    vcs: tuple[str, ...] = ("",)
    accounts: tuple[str, ...] = ("",)
    gpu_types: tuple[str, ...] = ("",)
    qoses: tuple[str, ...] = ("",)
    more: Mapping[str, Column] = field(default_factory=dict)  # texts
    first_s: float = 0.0  # the file's time of the first submission
    repairs: Mapping[str, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.job)

    def only(self, kept: Column, why: str) -> "Trace":
        """The jobs where `kept`; the others are counted as `why`."""
        left_out = len(self) - int(np.count_nonzero(kept))
        if not left_out:
            return self
        columns: dict[str, Any] = {name: getattr(self, name)[kept] for name in COLUMNS}
        columns["more"] = {name: column[kept] for name, column in self.more.items()}
        jobs = tuple(job for job, keep in zip(self.job, kept, strict=True) if keep)
        return replace(self, job=jobs, repairs={**self.repairs, why: left_out}, **columns)


MOST = 100_000  # nodes: no cluster has as many


def read_vc_nodes(path: Path) -> dict[str, int]:
    """Nodes by name, from the columns vc and nodes. Raises InputError, naming the line."""
    nodes: dict[str, int] = {}
    try:
        with path.open(encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file, restval="")
            if not {"vc", "nodes"} <= set(reader.fieldnames or ()):
                raise InputError(str(path), "expected the columns vc and nodes", line=1)
            for row in reader:
                count = _count(row["nodes"])
                if count is None or row["vc"] in nodes:
                    why = f"{row['vc']!r}, {row['nodes'][:40]!r}: expected a new name, and nodes"
                    raise InputError(str(path), f"{why} from 1 to {MOST}", line=reader.line_num)
                nodes[row["vc"]] = count
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise unreadable(str(path), error) from None
    if not nodes:
        raise InputError(str(path), "names no virtual cluster")
    return nodes


def _count(text: str) -> int | None:
    """None: no number of nodes."""
    fine = text.isascii() and text.isdecimal() and len(text) <= len(str(MOST))
    return int(text) if fine and 1 <= int(text) <= MOST else None
