"""A job in other shapes: drafts and tables of them."""

from collections.abc import Callable
from typing import Any

from slurm_ext.advisor.limits.bounds import PartitionRules
from slurm_ext.advisor.pipeline.context import DecisionContext
from slurm_ext.advisor.pipeline.sbatch_options import options_of
from slurm_ext.advisor.pipeline.script import read_script
from slurm_ext.advisor.what_if.layout import JobLayout, request_of
from slurm_ext.advisor.what_if.shapes import Axes, ClusterNodes
from slurm_ext.advisor.what_if.table import WhatIfRow, WhatIfTable, draft, judged
from slurm_ext.core.records import Level, LoaderRun, Submission
from slurm_ext.core.settings.document import Settings
from slurm_ext.slurm import StartEstimate

GIB = 1 << 30

NOW_S = 1_795_260_000.0

RULES = PartitionRules(cpus_per_node=32, mem_per_node_mib=256 * 1024)

MACHINES = ClusterNodes(cpus=32, gpus=4, gpu_types=("a100", "h100"))

RUN = LoaderRun(  # one worker where eight would do: data costs 80 ms, the step 10 ms
    samples_per_s=12.0,
    workers=1,
    cores=4.0,
    batch_size=8.0,
    accel_samples_per_s=100.0,
    fetch_wall_s=0.08,
    fetch_cpu_s=0.078,
    main_cpu_s=0.0001,
    node_cores=64,
    user_workers=1,
    gpus=1,
    ranks=1,
    nodes=1,
    run_samples=36_000.0,
    outside_s=30.0,
    worker_rss_bytes=2 * GIB,
    gpu_model="NVIDIA A100-SXM4-80GB",
)

HEAD = "#SBATCH -c 4 --gres=gpu:1 --mem=64G -t 60"


def script(head: str = HEAD) -> Submission:
    """A batch script with these options."""
    return read_script(f"#!/bin/bash\n{head}\npython3 train.py\n", "job.sh", user_name="ada")


def drafted(
    *runs: LoaderRun,
    head: str = HEAD,
    rules: PartitionRules | None = RULES,
    machines: ClusterNodes = MACHINES,
    level: Level = Level.SCRIPT_ARGS,
    **axes: Any,
) -> WhatIfTable:
    """The table of a script whose own runs these are, before Slurm was asked."""
    job = script(head)
    known = DecisionContext(
        settings=Settings(), evidence={level: list(runs)} if runs else {}, rules=rules
    )
    request = request_of(options_of(job.script or "", "job.sh"))
    return draft(job, known, request, Axes(**axes), machines)


def table(
    *runs: LoaderRun,
    says: Callable[[JobLayout], StartEstimate] = lambda _: StartEstimate(start_s=0),
    **more: Any,
) -> WhatIfTable:
    """The table after `says` answered for each row."""
    made = drafted(*runs, **more)
    return judged(made, {row.layout: says(row.layout) for row in made.rows}, NOW_S)


def marked(made: WhatIfTable, mark: str) -> WhatIfRow:
    """The one row with a mark."""
    (row,) = [row for row in made.rows if mark in row.marks]
    return row


def rate(row: WhatIfRow) -> float:
    """The row's samples/s, which have to be known."""
    assert row.rate is not None
    return row.rate.samples_per_s
