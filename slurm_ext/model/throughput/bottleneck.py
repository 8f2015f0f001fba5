"""Names the bottleneck of a predicted shape, and the next thing to do about it. Pure.

The rules and their words are those of every advice (core/advice); here an estimate becomes the
facts that they ask for, in seconds of one sample.
"""

from dataclasses import dataclass, replace
from math import exp

from slurm_ext.core.advice.advice import Advice
from slurm_ext.core.advice.facts import RankFacts, TrainingFacts, WorkerFacts
from slurm_ext.core.advice.first import first_advice
from slurm_ext.core.advice.words import AT_BEST, CROWDED_BY_ITSELF
from slurm_ext.core.records import Shape, ShapeLimits
from slurm_ext.model.throughput.curve.point import Point
from slurm_ext.model.throughput.estimate import Estimate
from slurm_ext.model.throughput.shape_predictor import point_at


@dataclass(frozen=True, slots=True, kw_only=True)
class BottleneckSigns:
    """Facts of a training at one shape beside its estimate; None: unknown."""

    network_share: float | None = None  # of a step: communication that nothing hides
    accelerator_busy: float | None = None  # share of the time
    fits_one_node: bool = False  # it runs on several nodes, and one has as many GPUs


NO_SIGNS = BottleneckSigns()


def diagnose(
    estimate: Estimate,
    shape: Shape,
    limits: ShapeLimits,
    *,
    node_cores: int | None = None,
    processes: int = 1,
    signs: BottleneckSigns = NO_SIGNS,
) -> Advice:
    """Return the first advice at `shape`, or what binds a job from which nothing is removed.

    `node_cores`: cores the machine really has; `processes`: that share the shape's cores.
    """
    cores = min(shape.cpus_per_task, node_cores or shape.cpus_per_task)
    most = min(limits.max_cpus_per_task, limits.node_cores, node_cores or limits.node_cores)
    own = cores / processes
    point = point_at(estimate, shape.num_workers, own)
    facts = _facts(estimate, point, shape, signs)
    facts = replace(facts, cores=own, room_cores=most / processes, mem_bytes=limits.mem_bytes)
    return next(iter(first_advice(facts)), None) or _at_best(estimate, point)


def _facts(estimate: Estimate, point: Point, shape: Shape, signs: BottleneckSigns) -> TrainingFacts:
    """The point on the curve as seconds of a sample."""
    step_s = 1 / point.samples_per_s
    wait_s = point.stalled * step_s
    exposed_s = (signs.network_share or 0.0) * (step_s - wait_s)
    nodes = 2 if signs.fits_one_node else 1
    return TrainingFacts(
        step_s=step_s,
        wait_s=wait_s,
        main_cpu_s=estimate.main_cpu_s,
        loader=_loader(estimate, shape),
        ranks=RankFacts(exposed_s=exposed_s, nodes=nodes, fits_one_node=signs.fits_one_node),
        accelerator_busy=signs.accelerator_busy,
        spread=max(estimate.wall.log_sd, estimate.cpu.log_sd),
    )


def _loader(estimate: Estimate, shape: Shape) -> WorkerFacts:
    ceiling = estimate.storage_samples_per_s
    return WorkerFacts(
        workers=shape.num_workers,
        wall_s=exp(estimate.wall.log_mean),
        cpu_s=exp(estimate.cpu.log_mean),
        sample_bytes=estimate.bytes_per_sample,
        storage_s=1 / ceiling if ceiling else 0.0,
        flat=None if ceiling else False,
        rss_bytes=estimate.worker_rss_bytes,
    )


def _at_best(estimate: Estimate, point: Point) -> Advice:
    """Say what binds: crowded cores, its step, or the curve's own limit."""
    if estimate.others > 0 and not estimate.by_other_jobs:
        return Advice(word="cores", action="none", next=CROWDED_BY_ITSELF)
    word = "cores" if estimate.others > 0 else "step" if point.on_cpu else "accelerator"
    return Advice(word=word, action="none", next=AT_BEST[word])
