"""Hooks that hang until their limit, run twice at once, or wait while their job is requeued."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from contrib.bench.campaign.cluster import Cluster
from contrib.bench.campaign.endings import SAME_S
from contrib.bench.campaign.faults.fault import every, on_records
from contrib.bench.campaign.faults.hooks import PYTHON, rewritten
from slurm_ext.core.errors import DlqueueError
from slurm_ext.slurm import CommandClient

_WAIT_S = 3


def _hanging(shipped: str) -> str:
    """Until `timeout` ends it: then nothing of ours has run."""
    return shipped.replace(PYTHON, f"/bin/sh -c 'exec /bin/sleep 600' {PYTHON}")


def _twice(shipped: str) -> str:
    """Both at once, and the epilog ends with the last."""
    program = shipped.replace("exit 0\n", "")
    return f"#!/bin/sh\n(\n{program}\n) &\n(\n{program}\n) &\nwait\nexit 0\n"


def _waiting(shipped: str) -> str:
    first, rest = shipped.split("\n", 1)
    return f"{first}\n/bin/sleep {_WAIT_S}\n{rest}"


@contextmanager
def _requeued(cluster: Cluster) -> Iterator[None]:
    """Each job that completed is started again by its user, once, while its epilog waits."""
    client = CommandClient(slurm_conf=str(cluster.slurm.layout.slurm_conf))
    done: set[int] = set()

    def turn(_: int) -> None:
        with suppress(DlqueueError):
            for job in client.jobs():
                lasted_s = (job.end_time_s or 0) - (job.start_time_s or 0)
                if job.state == "COMPLETED" and job.job_id not in done and lasted_s >= SAME_S:
                    done.add(job.job_id)
                    with suppress(DlqueueError):
                        client.requeue(job.job_id)

    with rewritten("epilog", _waiting)(cluster), every(0.5, turn):
        yield


FAULTS = (
    on_records("prolog_hangs", "every prolog hangs until its limit", rewritten("prolog", _hanging)),
    on_records("epilog_hangs", "every epilog hangs until its limit", rewritten("epilog", _hanging)),
    on_records("epilog_twice", "two epilogs at once for each job", rewritten("epilog", _twice)),
    on_records("epilog_requeued", "jobs are requeued while their epilog waits", _requeued),
)
