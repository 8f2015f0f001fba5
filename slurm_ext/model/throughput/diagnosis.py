"""Diagnoses the bottleneck of a job at a shape, from its estimated curve and its limits."""

from dataclasses import replace

from slurm_ext.core.records import Shape, ShapeLimits
from slurm_ext.model.throughput.bottleneck import Advice, BottleneckSigns, advise
from slurm_ext.model.throughput.estimate import Estimate, point_at

NO_SIGNS = BottleneckSigns()


def diagnose(
    known: Estimate,
    shape: Shape,
    limits: ShapeLimits,
    *,
    node_cores: int | None = None,
    signs: BottleneckSigns = NO_SIGNS,
) -> Advice:
    """Return the bottleneck at `shape` and the next thing to do.

    `signs`: facts from elsewhere (network, how busy its accelerator is); the rest follows from
    the limits. `node_cores`: cores the machine really has.
    """
    cores = min(shape.cpus_per_task, node_cores or shape.cpus_per_task)
    most_cores = min(limits.max_cpus_per_task, limits.node_cores, node_cores or limits.node_cores)
    signs = replace(
        signs,
        loads_itself=shape.num_workers == 0,
        most_workers=_most_workers(known, shape, limits),
        most_cores=cores >= most_cores,
    )
    return advise(point_at(known, shape.num_workers, cores), signs)


def _most_workers(known: Estimate, shape: Shape, limits: ShapeLimits) -> bool:
    """True if one more worker would not fit the job's memory."""
    if limits.mem_bytes is None or not known.worker_rss_bytes:
        return False
    return (shape.num_workers + 1) * known.worker_rss_bytes > limits.mem_bytes
