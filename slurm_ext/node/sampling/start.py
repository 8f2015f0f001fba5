"""Start a job's sampler as a process that outlives the hook."""

from __future__ import annotations

import time

from slurm_ext.node.common import log
from slurm_ext.node.common.daemonize import daemonize

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from slurm_ext.node.common.config import NodeConfig


def start_sampler(
    config: NodeConfig, key: str, deadline: float, deliver: Callable[[NodeConfig], object]
) -> None:
    """Start a sampler in the background; it ends at once if the job has one.

    If it writes the record itself, it calls `deliver`: no hook may come for a long time.
    """

    def work() -> None:
        from slurm_ext.node.sampling.sampler import sample_job

        if sample_job(config, key):
            deliver(config)

    left_s = max(0.05, deadline - time.monotonic())
    if daemonize("dlqueue-sampler", work, left_s) is None:
        log.report(f"{key}: the sampler did not report within {left_s:.1f} s")
