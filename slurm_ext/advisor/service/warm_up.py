"""Answers made-up submissions before anybody asks: the first real one is as quick as others."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from slurm_ext.advisor.evidence.runs import COLUMNS, LEVELS, NO_KEY, RunTable
from slurm_ext.advisor.limits.bounds import PartitionRules
from slurm_ext.advisor.limits.partition_limits import ClusterRules
from slurm_ext.advisor.pipeline.journal import NoJournal
from slurm_ext.advisor.service.advisor import Advisor
from slurm_ext.core.job_keys import keys_of
from slurm_ext.core.records import Level, LoaderRun, Submission
from slurm_ext.core.settings.document import Settings
from slurm_ext.core.wire import encode_request

TIMES = 24  # the interpreter makes code that ran some times faster
JOB = Submission(
    name="warm-up",
    user_name="dlqueue",
    partition="none",
    num_tasks=1,
    script="#!/bin/bash\n" + "srun python3 train.py --epochs 3\n" * 100,
    argv=("job.sh",),
)
RUN = LoaderRun(
    samples_per_s=12.0,
    workers=1,
    cores=1.0,
    batch_size=8.0,
    accel_samples_per_s=100.0,
    fetch_wall_s=0.08,
    fetch_cpu_s=0.04,
)
_ACTING = Settings(
    values={
        "site.mode": "act",
        "control.mode": "act",
        "policy.holdout_share": 0.0,
        "paths.kill_file": "/nonexistent/off",
    }
)


def warm_up(advisor: Advisor) -> bytes:
    """The whole path but for the journal, and the real table once; nothing is recorded.

    Returns the last answer.
    """
    keys = keys_of(replace(JOB, script=f"{JOB.script}: --seed {TIMES}\n"))
    twin = Advisor(_ACTING, NoJournal())
    twin.logs_decisions, twin.priors = False, advisor.priors
    twin.rules = ClusterRules(partitions={"none": PartitionRules(cpus_per_node=8)})
    twin.runs = _one_run(keys)
    for number in range(TIMES):
        job = replace(JOB, script=f"{JOB.script}: --seed {number}\n")
        answer, _ = twin.reply(encode_request("submit", job), trusted=True)
    advisor.runs.newest(keys)
    return answer


def _one_run(keys: Mapping[Level, int]) -> RunTable:
    """Return a table with one run of that script; only the seeds differ."""
    known = (getattr(RUN, name) for name in COLUMNS)
    values = np.array([[np.nan if value is None else value for value in known]], np.float32)
    table = RunTable()
    columns = [np.array([keys.get(level, NO_KEY)], np.int64) for level in LEVELS]
    table.extend(values, columns, np.zeros(1, np.int32))
    return table
