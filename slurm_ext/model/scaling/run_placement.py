"""GPUs, nodes and accelerator rate of a run, as a measurement for model/scaling/model.py."""

from math import exp
from typing import TYPE_CHECKING

from slurm_ext.core.records import LoaderRun
from slurm_ext.model.throughput.inversion import invert

if TYPE_CHECKING:
    from slurm_ext.model.scaling.model import ScalingMeasurement


def gpus_and_nodes(run: LoaderRun) -> tuple[int, int] | None:
    """GPUs and nodes of the whole job; None if an older record does not say."""
    nodes = run.nodes or (1 if run.gpus <= 1 else None)
    return None if nodes is None else (run.gpus * nodes, nodes)


def measurement_of(run: LoaderRun) -> "ScalingMeasurement | None":
    """Config of a run and the rate of all its accelerators; None without GPUs or their nodes."""
    from slurm_ext.model.scaling.model import ScalingMeasurement, TrainingConfig  # numpy

    place = gpus_and_nodes(run)
    if place is None or not place[0]:
        return None
    return ScalingMeasurement(
        config=TrainingConfig(gpus=place[0], nodes=place[1], local_batch=run.batch_size),
        samples_per_s=exp(invert(run).accel.log_mean) * (run.ranks or place[0]),
    )
