"""Runs of a training as tests need them: one place for the figures that many tests start from."""

from dataclasses import replace
from typing import Any

from slurm_ext.core.records import Elsewhere, Level, LoaderRun, Prediction, SyncRun
from slurm_ext.model.throughput.estimate import Estimate, estimate

# One worker where four cores are there: its data costs 20 ms a sample, nearly all of it CPU time.
STARVED = LoaderRun(
    samples_per_s=48,
    workers=1,
    cores=4,
    batch_size=32,
    accel_samples_per_s=400,
    fetch_wall_s=0.02,
    fetch_cpu_s=0.018,
    main_cpu_s=0.0001,
    worker_rss_bytes=200 << 20,
    node_cores=4,
    emulated=True,
)
# Two workers that wait for storage: more of them read faster.
STORAGE_BOUND = LoaderRun(
    samples_per_s=100.0,
    workers=2,
    cores=2,
    batch_size=8,
    accel_samples_per_s=400.0,
    fetch_wall_s=0.02,
    fetch_cpu_s=0.001,
    main_cpu_s=0.0001,
)


MIB = 1 << 20
# Two ranks: 32 MiB of gradients at 100 MiB/s beside a backward pass of 350 ms. Torch's own buckets
# expose 281 ms of a step of one second; 4 MiB each would expose 41.
SYNCHRONISED = SyncRun(
    signature="3f0c9a51be77",
    ranks=2,
    nodes=1,
    backend="gloo",
    accelerator="A100",
    takes_lists=True,
    caps=None,
    left_alone=None,
    user_caps=False,
    comm_hook=None,
    batch_size=32.0,
    data_key=None,
    step_s=1.0,
    waiting=0.0,
    syncs=1.0,
    exposed_s=0.281,
    bucket_bytes=(4.0 * MIB, 28.0 * MIB),
    ready_bytes=(4.0 * MIB,) * 8,
    ready_s=(0.35, 0.3, 0.25, 0.2, 0.15, 0.1, 0.05, 0.0),
)


def estimate_of(run: LoaderRun, **changes: Any) -> Estimate:
    """The estimate from one run of this very script, with some of its figures changed."""
    known = estimate({Level.SCRIPT_ARGS: [replace(run, **changes)]})
    assert known is not None
    return known


def alone(prediction: Prediction) -> Elsewhere:
    """What is told of cores of its own, of a job whose cores others want."""
    assert prediction.crowded
    assert prediction.elsewhere is not None
    return prediction.elsewhere
