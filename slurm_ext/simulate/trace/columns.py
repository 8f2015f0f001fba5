"""A trace: submissions and their run times, as columns of one length.

| column | unit | wanted | what it is |
|---|---|---|---|
| job | | yes | its id, once |
| submit_s | s | yes | when it was submitted, since the first submission |
| duration_s | s | yes | how long it ran, over 0 |
| gpus | | yes | GPUs that it held, 1 or more; processors where the trace has no GPUs |
| cpus | | no | CPUs; 0: not known |
| user, vc | | no | who, and in which virtual cluster (partition): numbers into `users`, `vcs` |
| limit_s | s | no | the time limit it asked for; NaN: none |
| estimate_s | s | no | a prediction of its duration, made before it ran; NaN: none |
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

Column = NDArray[Any]


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
    users: tuple[str, ...] = ("",)
    vcs: tuple[str, ...] = ("",)
    repairs: Mapping[str, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.job)

    def only(self, kept: Column, why: str) -> "Trace":
        """The jobs where `kept`; the others are counted as `why`."""
        left_out = len(self) - int(np.count_nonzero(kept))
        if not left_out:
            return self
        names = ("submit_s", "duration_s", "gpus", "cpus", "user", "vc", "limit_s", "estimate_s")
        columns: dict[str, Any] = {name: getattr(self, name)[kept] for name in names}
        jobs = tuple(job for job, keep in zip(self.job, kept, strict=True) if keep)
        return replace(self, job=jobs, repairs={**self.repairs, why: left_out}, **columns)
